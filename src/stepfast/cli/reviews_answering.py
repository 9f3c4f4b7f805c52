"""`stepfast reviews decide` and `resume`: a person answers, known by name or by a token."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.actors import actor_options
from stepfast.cli.arguments import json_of
from stepfast.cli.client import Client, with_client
from stepfast.cli.naming import review_named
from stepfast.cli.output import put
from stepfast.cli.printing import print_json, visible
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.reviews import ReviewState, Verdict
from stepfast.kernel.views import RunView
from stepfast.reviews import Review
from stepfast.tokens import PREFIX, Secret

LONGEST_TOKEN = 4_096

note_option = click.option("--note", metavar="TEXT", help="What to say to whoever reads the answer.")
to_option = click.option("--to", metavar="NAME", help="Whom to ask instead, with escalate.")
to_role_option = click.option("--to-role", metavar="NAME", help="Which role to ask instead, with escalate.")
key_option = click.option("--key", metavar="KEY", help="What makes this command one of a kind: a second does nothing.")


@click.command()
@with_client
@note_option
@click.option("--role", metavar="NAME", help="The role that whoever answers has.")
@to_option
@to_role_option
@click.option("--digest", metavar="DIGEST", help="That of what was shown: an answer to something else is refused.")
@click.option("--reason", metavar="TEXT", help="Why; the note, where none is given.")
@key_option
@actor_options
@click.argument("review")
@click.argument("verdict")
@click.argument("value", required=False)
def decide(client: Client, review: str, verdict: str, value: str | None, asked_by: str | None, **given: Any) -> None:
    """Answer a review: continue, reject, correct with a VALUE, retry or escalate.

    VALUE is JSON, @file.json, or - for stdin.
    """
    corrected = None if value is None else json_of(value, "The value")

    async def work(app: Stepfast) -> Review:
        review_id = await review_named(client, app, review, given["key"])
        await app.reviews.decide(review_id, verdict, corrected, tenant=client.tenant, actor=asked_by, **given)
        return await app.reviews.get(review_id, tenant=client.tenant)

    found = client.perform(work)
    if client.is_json:
        names = ("review_id", "run_id", "state", "verdict", "actor", "assignee", "role")
        print_json({name: getattr(found, name) for name in names})
    else:
        put(visible(_outcome(found)))


@click.command()
@with_client
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Where the token is; - for stdin. [asked for on a terminal, else stdin]",
)
@note_option
@to_option
@to_role_option
@click.option("--subject", metavar="TEXT", help="What the review must be about.")
@click.option("--actor", metavar="NAME", help="Whom the token must be for.")
@key_option
@click.argument("said", nargs=-1, required=True, metavar="VERDICT [VALUE]")
def resume(client: Client, token_file: Path | None, said: tuple[str, ...], **given: Any) -> None:
    """Answer a review by its token, which is never given as an argument: others could see it there.

    VALUE goes with correct; it is JSON, or @file.json.
    """
    verdict, value = _spoken(said)
    # A token reaches all tenants' reviews by itself; a tenant that is named must be its own.
    given["tenant"] = client.named_tenant
    corrected = None if value is None else json_of(value, "The value")
    token = Secret(read_token(token_file))

    async def work(app: Stepfast) -> RunView | Changed:
        return await run_after(app, await app.reviews.resume(token, verdict, corrected, **given))

    print_counted(client, "The answer counts", client.perform(work))


async def run_after(app: Stepfast, changed: Changed) -> RunView | Changed:
    """The run as an answer has left it, or else as the answer has found it: it counts, whatever becomes of the look."""
    with contextlib.suppress(StepfastError):
        return await app.get(changed.run_id).info()
    return changed


def print_counted(client: Client, what: str, run: RunView | Changed) -> None:
    """Say that something counts, and where its run stands."""
    if client.is_json:
        print_json({"run_id": run.run_id, "state": run.state, "generation": run.generation})
    else:
        put(f"{what}. Run {run.run_id} is {run.state}.")


def _spoken(said: tuple[str, ...]) -> tuple[str, str | None]:
    """The verdict, and the value if there is one; a token among them is not repeated."""
    if any(word.strip().startswith(PREFIX) for word in said):
        raise Invalid(
            "A token was given as an argument, where every user of this machine can see it. Have a new one issued; "
            "give it when you are asked, on stdin, or with --token-file."
        )
    verdict, *rest = said
    if len(rest) > 1:
        raise Invalid(f"{len(said)} words were given; write VERDICT, or VERDICT VALUE.")
    if rest == ["-"]:
        raise Invalid("The value cannot come from stdin, as the token may. Write it as JSON, or as @file.json.")
    return verdict, rest[0] if rest else None


def read_token(file: Path | None) -> str:
    """The token by the way that was chosen; what is too long is none, and is not read further."""
    if file is None and sys.stdin.isatty():
        asked: str = click.prompt("Token", hide_input=True, err=True)
        return asked.strip()
    if file is None or str(file) == "-":
        return sys.stdin.readline(LONGEST_TOKEN).strip()
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.readline(LONGEST_TOKEN).strip()
    except OSError as error:
        raise Invalid(f"The token cannot be read from {file}: {error.strerror}.") from None


def _outcome(review: Review) -> str:
    if review.state is not ReviewState.OPEN:
        return f"Review {review.review_id} is {review.state}: {review.verdict}."
    if review.answers and review.answers[-1].verdict is Verdict.ESCALATE:
        whom = review.assignee or f"role {review.role}"
        return f"Review {review.review_id} is escalated to {whom}."
    answers = sum(answer.verdict is not Verdict.ESCALATE for answer in review.answers)
    return f"Review {review.review_id} has {answers} of {review.quorum} answers that it needs."
