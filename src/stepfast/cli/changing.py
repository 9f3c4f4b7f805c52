"""Commands that change runs: those that are named, one by one, or all that fit some filters, page by page."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import click

from stepfast.app import Stepfast
from stepfast.bulk import BulkAnswer, Refusal, answered, together
from stepfast.cli.actors import actor_options
from stepfast.cli.client import Client
from stepfast.cli.exits import PARTLY_DONE, exit_code_of
from stepfast.cli.filters import page_options
from stepfast.cli.output import put
from stepfast.cli.printing import UNCUT, console, print_json, print_table, say, visible
from stepfast.cli.signals import INTERRUPTION
from stepfast.control import key_of_one, shared_key
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState
from stepfast.kernel.texts import counted

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")

SHOWN_REFUSALS = 20


class Action(NamedTuple):
    """What is done to runs: to one that is named, and to pages of those that fit."""

    name: str
    done: str
    one: Callable[[Stepfast, str, str | None], Awaitable[Changed]]
    """For an app, a run's id and the key under which this counts once."""
    pages: Callable[[Stepfast, str | None], AsyncIterator[BulkAnswer]]
    """For an app and the key of the whole."""
    names_code: bool = False
    """Whether the app's own workflows count, if one is named: only code knows what a version of a graph stands for, and
    what rests on its steps."""

    def perform(self, client: Client, work: Callable[[Stepfast], Awaitable[T]]) -> T:
        """Do the work on the database, with the app's code where it matters."""
        return client.perform(work, takes_app=self.names_code)


class Choice(NamedTuple):
    """Which runs a command is for, and how it is to be gone about."""

    runs: tuple[str, ...]
    filters: dict[str, Any]
    is_all: bool
    dry_run: bool
    yes: bool
    key: str | None

    @classmethod
    def taken_from(cls, given: dict[str, Any], names: Mapping[str, str]) -> Choice:
        """What the common options of such commands say; refuses to guess whether all runs are meant.

        `names` are the options that choose runs, each with the filter that it sets.
        """
        filters = {name: given[option] for option, name in names.items() if given[option] is not None}
        choice = cls(given["runs"], filters, given["is_all"], given["dry_run"], given["yes"], given["key"])
        if choice.runs and (filters or choice.is_all):
            raise Invalid("Runs were named, and filters given too. Name runs, or choose them by filters.")
        if not (choice.runs or filters or choice.is_all):
            raise Invalid("No run is named. Name one or more, choose them by filters, or say --all.")
        return choice

    @classmethod
    def named(cls, given: dict[str, Any]) -> Choice:
        """The same for commands that no filter chooses runs for."""
        return cls(given["runs"], {}, False, given["dry_run"], True, given["key"])


_DRY_RUN = click.option("--dry-run", is_flag=True, help="Change nothing; say what would be changed.")
_SAYING = (
    click.option("--reason", metavar="TEXT", help="Why; kept in the history of each run."),
    click.option(
        "--key", metavar="KEY", help="Makes this command one of a kind for a run: a second time does nothing."
    ),
    actor_options,
)


def choice_options(command: Command) -> Command:
    """Add the runs that are named, and the options of commands for many runs."""
    options: tuple[Callable[[Command], Command], ...] = (
        click.option("--all", "is_all", is_flag=True, help="All runs of the tenant, without a filter."),
        _DRY_RUN,
        page_options(None),
        click.option("-y", "--yes", is_flag=True, help="Do not ask before changing many runs."),
        *_SAYING,
        click.argument("runs", nargs=-1, metavar="[RUN]..."),
    )
    return _with(options, command)


def named_options(command: Command) -> Command:
    """Add the runs, which must be named, and the options of commands for such runs."""
    options: tuple[Callable[[Command], Command], ...] = (
        _DRY_RUN,
        # It is taken, since commands for many runs take it, and not offered: nothing is asked about named runs.
        click.option("-y", "--yes", is_flag=True, hidden=True),
        *_SAYING,
        click.argument("runs", nargs=-1, metavar="RUN...", required=True),
    )
    return _with(options, command)


def _with(options: tuple[Callable[[Command], Command], ...], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def change(client: Client, action: Action, choice: Choice) -> None:
    """Carry an action out on what was chosen, and say what came of it."""
    if len(choice.runs) == 1 and not choice.dry_run:
        _change_one(client, action, choice)
        return
    if not choice.runs:
        _confirm(client, action, choice)
    tally = Tally()
    try:
        action.perform(client, lambda app: tally.add(_answers(client, app, action, choice)))
    except StepfastError as error:
        tally.stop(error)
    except KeyboardInterrupt:
        tally.stop(None)
    _tell(client, action, choice, tally)
    if code := tally.exit_code:
        sys.exit(code)


class Tally:
    """What has been done so far, kept also when the rest cannot be done."""

    def __init__(self) -> None:
        self._pages: list[BulkAnswer] = []
        self._code = 0

    @property
    def answer(self) -> BulkAnswer:
        """All pages together."""
        return together(self._pages)

    async def add(self, answers: AsyncIterator[BulkAnswer]) -> None:
        """Take the answers as they come, and show how far it has got."""
        if not sys.stderr.isatty():
            async for answer in answers:
                self._pages.append(answer)
            return
        seen = changed = 0
        with console(stderr=True).status("...") as status:
            async for answer in answers:
                self._pages.append(answer)
                seen, changed = seen + answer.matched, changed + len(answer.changed)
                status.update(f"{seen:,} runs seen, {changed:,} changed")

    def stop(self, error: StepfastError | None) -> None:
        """It broke off: by an error, or by the person at the terminal."""
        if error is not None and not self._pages:
            raise error
        if error is not None:
            say(f"{error.code}: {error}")
        self._code = INTERRUPTION.exit_code if error is None else PARTLY_DONE

    @property
    def exit_code(self) -> int:
        """Partly done when some were changed and others were not; when all were refused, what the first was for."""
        answer = self.answer
        if self._code or not answer.refused:
            return self._code
        return PARTLY_DONE if answer.changed else exit_code_of(answer.refused[0].error)


def _change_one(client: Client, action: Action, choice: Choice) -> None:
    async def work(app: Stepfast) -> Changed:
        view = await client.find(app, choice.runs[0])
        return await action.one(app, view.run_id, choice.key)

    changed = action.perform(client, work)
    if client.is_json:
        print_json({"run_id": changed.run_id, "state": changed.state, "generation": changed.generation})
    elif action.name == "pause" and changed.state is RunState.RUNNING:
        put(f"Run {changed.run_id} is paused as soon as its steps under way are recorded.")
    elif action.name == "discard":
        put(f"The dead letter of run {changed.run_id} is discarded. The run stays {changed.state}.")
    else:
        generation = f", in generation {changed.generation}" if changed.generation > 1 else ""
        put(f"Run {changed.run_id} is {changed.state}{generation}.")


def _answers(client: Client, app: Stepfast, action: Action, choice: Choice) -> AsyncIterator[BulkAnswer]:
    return _named(client, app, action, choice) if choice.runs else action.pages(app, choice.key)


async def _named(client: Client, app: Stepfast, action: Action, choice: Choice) -> AsyncIterator[BulkAnswer]:
    """Each of the named runs by itself, and once: one that is refused keeps no other back."""
    key = shared_key(choice.key)
    seen: set[str] = set()
    for name in dict.fromkeys(choice.runs):
        async for answer in answered(_one_named(client, app, action, name, key, seen)):
            yield answer


async def _one_named(
    client: Client, app: Stepfast, action: Action, name: str, key: str | None, seen: set[str]
) -> BulkAnswer:
    try:
        view = await client.find(app, name)
        if view.run_id in seen:
            # It was named before, perhaps by more or fewer of its digits.
            return BulkAnswer(0)
        seen.add(view.run_id)
        await action.one(app, view.run_id, key_of_one(key, view.run_id))
        return BulkAnswer(1, (view.run_id,))
    except StepfastError as error:
        return BulkAnswer(1, refused=(Refusal(RunId(name), error),))


def _confirm(client: Client, action: Action, choice: Choice) -> None:
    if choice.yes or choice.dry_run or not sys.stdin.isatty():
        return
    where = " and ".join(f"{name} {value}" for name, value in choice.filters.items())
    tenant = "of all tenants" if client.tenant is None else f"of tenant {client.tenant}"
    what = f"runs {tenant} with {where}" if where else f"all runs {tenant}"
    click.confirm(visible(f"{action.name.capitalize()} {what}?"), abort=True, err=True)


def _tell(client: Client, action: Action, choice: Choice, tally: Tally) -> None:
    answer = tally.answer
    if client.is_json:
        print_json(_object(answer, choice.dry_run))
        return
    if choice.dry_run:
        for run_id in answer.changed:
            put(run_id)
    say(_summary(answer, action, choice.dry_run))
    if answer.refused:
        rows = [(refusal.run_id, refusal.error.code, refusal.error) for refusal in answer.refused[:SHOWN_REFUSALS]]
        print_table(("run", "code", "refused because"), rows, to=console(stderr=True, width=UNCUT))
    if answer.cursor:
        say(f"There are more: --cursor {answer.cursor}")


def _summary(answer: BulkAnswer, action: Action, dry_run: bool) -> str:
    verb = f"{len(answer.changed):,} would be {action.done}" if dry_run else f"{len(answer.changed):,} {action.done}"
    skipped = f", {answer.skipped:,} skipped for their state" if answer.skipped else ""
    refused = f", {len(answer.refused):,} refused" if answer.refused else ""
    return f"Of {counted(answer.matched, 'run')}: {verb}{skipped}{refused}."


def _object(answer: BulkAnswer, dry_run: bool) -> dict[str, Any]:
    refused = [{"run_id": each.run_id, "code": each.error.code, "message": str(each.error)} for each in answer.refused]
    return {
        "dry_run": dry_run,
        "matched": answer.matched,
        "changed": answer.changed,
        "skipped": answer.skipped,
        "refused": refused,
        "next_cursor": answer.cursor,
    }
