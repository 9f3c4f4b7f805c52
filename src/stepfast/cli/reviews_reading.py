"""`stepfast reviews list`, `show` and `stats`: what people are asked, and how quickly they answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.exits import ERROR
from stepfast.cli.filters import moment_of, page_options
from stepfast.cli.naming import review_named
from stepfast.cli.output import put
from stepfast.cli.paging import Listing, print_page
from stepfast.cli.printing import moment, print_facts, print_json, print_table, say, shortened, took, visible
from stepfast.kernel.review_views import EndlessReview, ReviewView
from stepfast.kernel.reviews import ReviewState
from stepfast.reviews import DEFAULT_TARGET, Review, ReviewStats

PAGE = 50
ALL_STATES = "all"
SHOWN_ENDLESS = 20

workflow_option = click.option("--workflow", metavar="NAME", help="Reviews of this workflow.")
role_option = click.option("--role", metavar="NAME", help="Reviews for this role.")


@click.command("list")
@with_client
@workflow_option
@click.option(
    "--state",
    type=click.Choice([*(state.value for state in ReviewState), ALL_STATES]),
    default=ReviewState.OPEN.value,
    help="Reviews in this state. [open]",
)
@role_option
@click.option("--assignee", metavar="NAME", help="Reviews that this person is to answer.")
@click.option("--run", metavar="RUN", help="Reviews of this run.")
@click.option("--since", "opened_after", metavar="WHEN", callback=moment_of, help="Opened since then.")
@page_options(PAGE)
def list_reviews(client: Client, limit: int, state: str, run: str | None, **given: Any) -> None:
    """A page of reviews, newest run first; those that are open, unless told otherwise."""
    wanted = None if state == ALL_STATES else state

    async def read(app: Stepfast) -> list[ReviewView]:
        run_id = None if run is None else (await client.find(app, run)).run_id
        where = {"tenant": client.tenant, "state": wanted, "run_id": run_id, **given}
        return await app.reviews.list(limit=limit + 1, **where)

    head = ("review", "workflow", "title", "kind", "for", "opened", "due", "state", "verdict")
    listing = Listing(_object, head, _row, "No reviews.", cursor_of=lambda review: review.review_id)
    print_page(client.perform(read), limit, listing, client.is_json)


@click.command()
@with_client
@click.argument("review")
def show(client: Client, review: str) -> None:
    """One review whole: what is shown, who is asked, and what people have said so far."""

    async def read(app: Stepfast) -> Review:
        return await app.reviews.get(await review_named(client, app, review), tenant=client.tenant)

    found = client.perform(read)
    if client.is_json:
        print_json(_whole_object(found))
        return
    print_facts(_facts(found))
    _print_value("shown", found.shown)
    if found.schema is not None:
        _print_value("a correction must fit", found.schema)
    _print_said(found)


@click.command()
@with_client
@workflow_option
@role_option
@click.option("--since", "after", metavar="WHEN", callback=moment_of, help="Those opened since then.")
@click.option("--until", "before", metavar="WHEN", callback=moment_of, help="Those opened before then.")
@click.option(
    "--target",
    type=click.FloatRange(0, 1),
    default=DEFAULT_TARGET,
    help=f"The share that people should decide within 24 hours. [{DEFAULT_TARGET}]",
)
@click.option("--check", is_flag=True, help="End with code 1 if the target is missed or a review has not just one end.")
def stats(client: Client, check: bool, **given: Any) -> None:
    """What became of reviews, how long they waited, and whether people decide as quickly as they should."""

    async def read(app: Stepfast) -> tuple[ReviewStats, list[EndlessReview]]:
        endless = await app.reviews.check(tenant=client.tenant) if check else []
        return await app.reviews.stats(tenant=client.tenant, **given), endless

    found, endless = client.perform(read)
    if client.is_json:
        checked = {"endless": [each._asdict() for each in endless]} if check else {}
        print_json({**found._asdict(), **checked})
    else:
        print_facts(_stats_facts(found))
    _tell_trouble(found, endless)
    if check and (endless or not found.is_met):
        sys.exit(ERROR)


def _tell_trouble(found: ReviewStats, endless: list[EndlessReview]) -> None:
    if not found.is_met:
        say(f"Within 24 hours {_share(found.in_time_share)} were decided; {_share(found.target)} should be.")
    for each in endless[:SHOWN_ENDLESS]:
        say(f"Review {each.review_id} of tenant {each.tenant} has not exactly one end: {each.trouble}")


def _stats_facts(found: ReviewStats) -> dict[str, object]:
    refusals = ", ".join(f"{code}: {number:,}" for code, number in sorted(found.refusals.items()))
    return {
        "opened": found.opened,
        "decided": found.decided,
        "expired": found.expired,
        "withdrawn": found.withdrawn,
        "open": found.open,
        "escalated": found.escalated,
        "waited, half of them at most": took(found.waited_p50_ms) or None,
        "waited, 95 % at most": took(found.waited_p95_ms) or None,
        "decided within 24 hours": _share(found.in_time_share),
        "target": f"{_share(found.target)}, {'met' if found.is_met else 'missed'}",
        "refused tokens": refusals or "none",
    }


def _share(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"


def _facts(review: Review) -> dict[str, object]:
    names = ("review_id", "tenant", "workflow", "step", "kind", "title", "state", "verdict", "actor")
    asked = f"{review.quorum} must approve, {review.quorum_reject} may reject" if review.quorum > 1 else None
    return {
        **{name.replace("_id", ""): getattr(review, name) for name in names},
        "for": _owner(review),
        "answers": ", ".join(review.verdicts),
        "quorum": asked,
        "subject": review.subject,
        "digest": review.digest,
        "opened": moment(review.opened_at),
        "due": f"{moment(review.due_at)}, then {review.on_expiry}" if review.due_at else None,
        "escalated": review.escalations or None,
        "ended": moment(review.ended_at) or None,
    }


def _print_value(name: str, value: object) -> None:
    put(f"\n{name}:")
    for line in json.dumps(value, indent=2, ensure_ascii=False).splitlines():
        put(visible(line))


def _print_said(review: Review) -> None:
    answers = [(moment(each.at), each.actor, each.verdict, each.note) for each in review.answers]
    comments = [(moment(each.at), each.actor, each.text) for each in review.comments]
    tokens = [(each.actor, *map(moment, (each.issued_at, each.expires_at, each.used_at))) for each in review.tokens]
    _print_rows(("at", "by", "answer", "note"), answers)
    _print_rows(("at", "by", "comment"), comments)
    _print_rows(("token for", "issued", "expires", "used"), tokens)


def _print_rows(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        put()
        print_table(head, rows)


def _owner(review: ReviewView) -> str:
    return review.assignee or (f"role {review.role}" if review.role else "anybody")


def _object(review: ReviewView) -> dict[str, Any]:
    return asdict(review)


def _whole_object(review: Review) -> dict[str, Any]:
    said = {name: [each._asdict() for each in getattr(review, name)] for name in ("answers", "comments", "tokens")}
    return {**_object(review), "shown": review.shown, "schema": review.schema, **said}


def _row(review: ReviewView) -> tuple[object, ...]:
    what = (review.workflow, shortened(review.title), review.kind, _owner(review))
    return (review.review_id, *what, moment(review.opened_at), moment(review.due_at), review.state, review.verdict)
