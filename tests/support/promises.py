"""A checker over three recordings of a trial: what callers were answered, what bodies did, and what is stored.

An engine's own history cannot show what it did not notice, such as a body that ran twice; so bodies record themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from stepfast.kernel.states import ENDED

START = "start"
"""What the first body of a run is given."""

TELLS = {"cancel": "cancelled", "rerun": "rerun", "retry": "retried"}
"""Commands whose event is written with them."""

ENDS = frozenset(str(state) for state in ENDED)
STEP_ENDS = ("completed", "failed")
# A run that a worker hands back tells so under the worker's own token; whoever takes it away raises the token first.
TAKEN_AWAY = frozenset({"reaped", "cancelled"})
LOST = TAKEN_AWAY | {"handed_back"}


class Start(NamedTuple):
    """A caller was told that this key has this run."""

    key: str
    run_id: str


class Command(NamedTuple):
    """What callers were answered who sent a command with one key; `is_unsure`: one of them got no answer."""

    run_id: str
    name: str
    key: str
    answers: tuple[str, ...]
    is_unsure: bool = False


class Result(NamedTuple):
    """A caller was given what the run came to."""

    run_id: str
    value: str


class Body(NamedTuple):
    """One execution of a step's body, by the clock that all processes share; None: it never got to its end."""

    run_id: str
    call: str
    token: int
    pid: int
    begun_at: int
    ended_at: int | None
    given: str
    gave: str | None


class Told(NamedTuple):
    """An event."""

    seq: int
    type: str
    generation: int
    token: int


class Kept(NamedTuple):
    """A record."""

    call: str
    state: str
    generation: int
    token: int
    superseded: bool
    value: str | None


class Stored(NamedTuple):
    """What the store has of a run."""

    run_id: str
    key: str
    state: str
    value: str | None
    events: Sequence[Told]
    records: Sequence[Kept]
    outcomes: Sequence[tuple[int, str]]
    """The generation and the state of each end."""


class Recordings(NamedTuple):
    """All three."""

    starts: Sequence[Start]
    commands: Sequence[Command]
    results: Sequence[Result]
    bodies: Sequence[Body]
    runs: Sequence[Stored]


def broken_promises(recordings: Recordings) -> list[str]:
    """Every promise that the recordings show broken, each with what shows it."""
    found = [*_starts(recordings), *_commands(recordings), *_results(recordings)]
    bodies = {run_id: list(own) for run_id, own in groupby(sorted(recordings.bodies), key=attrgetter("run_id"))}
    for run in recordings.runs:
        own = bodies.pop(run.run_id, [])
        found += [*_history(run), *_records(run, own), *_outcomes(run)]
        found += [*_needless(run, own), *_overlaps(run, own), *_unsaved(run, own)]
    return found + [f"P1: bodies of run {run_id} ran, which is not stored." for run_id in bodies]


def _starts(recordings: Recordings) -> Iterator[str]:
    stored = Counter(run.key for run in recordings.runs)
    ids = {run.run_id for run in recordings.runs}
    told: dict[str, set[str]] = {}
    for start in recordings.starts:
        told.setdefault(start.key, set()).add(start.run_id)
        if start.run_id not in ids:
            yield f"P1: the start of run {start.run_id} was answered, and it is not stored."
    for key, runs in told.items():
        if len(runs) > 1 or stored[key] != 1:
            yield f"P2: key {key} was answered with {len(runs)} runs, and {stored[key]} are stored."


def _commands(recordings: Recordings) -> Iterator[str]:
    for command in recordings.commands:
        if len(set(command.answers)) > 1:
            yield f"P2: {command.name} with key {command.key} was answered differently: {command.answers}."
    for run in recordings.runs:
        own = [command for command in recordings.commands if command.run_id == run.run_id]
        for name, event in TELLS.items():
            sure = sum(command.name == name and bool(command.answers) for command in own)
            unsure = sum(command.name == name and command.is_unsure and not command.answers for command in own)
            told = sum(told.type == event for told in run.events)
            if not sure <= told <= sure + unsure:
                yield f"P1: {sure} times {name} was answered for run {run.run_id}, and {told} times it is told."


def _results(recordings: Recordings) -> Iterator[str]:
    values = {run.run_id: run.value for run in recordings.runs}
    for result in recordings.results:
        if values.get(result.run_id) != result.value:
            yield f"P12: run {result.run_id} was answered {result.value}, and {values.get(result.run_id)} is stored."


def _history(run: Stored) -> Iterator[str]:
    if [event.seq for event in run.events] != list(range(1, len(run.events) + 1)):
        yield f"P16: the events of run {run.run_id} have gaps."
    for before, after in pairwise(run.events):
        if after.token < before.token or (after.type == "claimed" and after.token <= before.token):
            yield f"P4: token {after.token} of {after.type} follows {before.token} in run {run.run_id}."


def _records(run: Stored, bodies: Sequence[Body]) -> Iterator[str]:
    ended = [record for record in run.records if record.state in STEP_ENDS]
    for call, times in Counter(record.call for record in ended if not record.superseded).items():
        if times > 1:
            yield f"P7: {times} results of {call} stand in run {run.run_id}."
    for (call, generation), times in Counter((record.call, record.generation) for record in ended).items():
        if times > 1:
            yield f"P7: {times} results of {call} in generation {generation} of run {run.run_id}."
    gave = {body.gave for body in bodies}
    for record in ended:
        if record.value is not None and record.value not in gave:
            yield f"P7: the record of {record.call} in run {run.run_id} holds {record.value}, which no body gave."


def _outcomes(run: Stored) -> Iterator[str]:
    told = [(event.generation, event.type) for event in run.events if event.type in ENDS]
    if sorted(told) != sorted(run.outcomes):
        yield f"P12: run {run.run_id} tells of {told}, and has the outcomes {list(run.outcomes)}."
    for generation, times in Counter(generation for generation, _ in run.outcomes).items():
        if times > 1:
            yield f"P12: generation {generation} of run {run.run_id} ended {times} times."
    for generation, events in groupby(run.events, key=attrgetter("generation")):
        types = [event.type for event in events]
        if ENDS.intersection(types[:-1]):
            yield f"P12, P14: something came after the end of generation {generation} of run {run.run_id}: {types}."
    if run.state in ENDS and run.state != run.events[-1].type:
        yield f"P12: run {run.run_id} is {run.state}, and its last event is {run.events[-1].type}."


def _needless(run: Stored, bodies: Sequence[Body]) -> Iterator[str]:
    """Under one token a body runs as often as it is recorded, and once more if the token was lost before its end."""
    recorded = Counter((record.call, record.token) for record in run.records)
    ended = {(record.call, record.token) for record in run.records if record.state in STEP_ENDS}
    for (call, token), times in Counter((body.call, body.token) for body in bodies).items():
        is_cut_off = (call, token) not in ended and (_is_lost(run, token) or _is_held(run, token))
        allowed = recorded[call, token] + is_cut_off
        if times > allowed:
            yield f"P9: {call} of run {run.run_id} ran {times} times under token {token}, where {allowed} are allowed."
    for body in bodies:
        standing = [
            record.token
            for record in run.records
            if record.call == body.call and not record.superseded and record.state in STEP_ENDS
        ]
        if standing and min(standing) < body.token:
            yield f"P9: {body.call} of run {run.run_id} ran under token {body.token} although its record stands."


def _overlaps(run: Stored, bodies: Sequence[Body]) -> Iterator[str]:
    """Two bodies of a call at once: only when the run was taken away from the first."""
    for call, own in groupby(sorted(bodies, key=attrgetter("call", "token", "begun_at")), key=attrgetter("call")):
        for first, second in combinations(own, 2):
            if _overlap(first, second) and not _is_taken_away(run, first.token, second.token):
                yield (
                    f"P6: {call} of run {run.run_id} ran under the tokens {first.token} and {second.token} at once, in "
                    f"the processes {first.pid} and {second.pid}, and no lease was lost between."
                )


def _unsaved(run: Stored, bodies: Sequence[Body]) -> Iterator[str]:
    """A body may be given only what is stored."""
    values = {record.value for record in run.records} | {START}
    for body in bodies:
        if body.given not in values:
            yield f"P1, P8: {body.call} of run {run.run_id} was given {body.given}, which no record holds."


def _overlap(first: Body, second: Body) -> bool:
    return _ends_after(first, second.begun_at) and _ends_after(second, first.begun_at)


def _ends_after(body: Body, moment: int) -> bool:
    return body.ended_at is None or body.ended_at > moment


def _is_taken_away(run: Stored, first: int, second: int) -> bool:
    return any(event.type in TAKEN_AWAY and first < event.token <= second for event in run.events)


def _is_lost(run: Stored, token: int) -> bool:
    """Whether a token was lost before its holder was done: handed back, or raised by who took the run away."""
    if any(event.type == "handed_back" and event.token == token for event in run.events):
        return True
    later = [event for event in run.events if event.token > token]
    return bool(later) and later[0].type in LOST


def _is_held(run: Stored, token: int) -> bool:
    """Whether the token is that of the present holder, who may be in the middle of something."""
    return run.state not in ENDS and run.events[-1].token == token


def promises_of(broken: Iterable[str]) -> set[str]:
    """Which promises those are."""
    return {name for line in broken for name in line.partition(":")[0].split(", ")}
