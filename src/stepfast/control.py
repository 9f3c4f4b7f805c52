"""Commands as people give them: checked, and made into what a store carries out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from stepfast.kernel.commands import (
    Cancel,
    Changed,
    Command,
    Pause,
    Request,
    Rerun,
    Resume,
    RetryRun,
    Skip,
)
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.texts import MAX_BYTES, MAX_NOTE, check_optional_text, check_text, shown
from stepfast.workflows.functions import MAX_VERSION

# A run's id has 36 characters.
_MAX_SHARED = MAX_BYTES - len("/") - 36

ACTIONS = ("cancel", "pause", "resume", "retry", "rerun")


class Asked(NamedTuple):
    """A command, and who gives it and why; `key` makes sure that it is carried out once, `dry_run` that it is not."""

    command: Command
    key: str | None = None
    reason: str | None = None
    actor: str | None = None
    dry_run: bool = False

    def of(self, run_id: RunId, tenant: str | None) -> Request:
        """The same for one run; a tenant reaches its own runs only, None reaches all."""
        return Request(run_id, self.command, tenant, self.actor, self.reason, self.key, self.dry_run)

    def of_one_among_many(self, run_id: RunId, tenant: str | None) -> Request:
        """The same for one of several runs: each needs a key of its own."""
        request = self.of(run_id, tenant)
        return request._replace(key=key_of_one(self.shared_key, run_id))

    @property
    def shared_key(self) -> str | None:
        """What the keys of several runs have in common."""
        return shared_key(self.key)


def shared_key(key: str | None) -> str | None:
    """The key of a command for several runs, in a form that leaves room for the id of each."""
    if key is None or len(check_text("key", key).encode()) <= _MAX_SHARED:
        return key
    return hashlib.sha256(key.encode()).hexdigest()


def key_of_one(shared: str | None, run_id: RunId) -> str | None:
    """The key of one of several runs."""
    return None if shared is None else f"{shared}/{run_id}"


def asked(command: Command, key: str | None, reason: str | None, actor: str | None, dry_run: bool = False) -> Asked:
    """A command with what its caller said, refused if a store could not keep it."""
    return Asked(
        command,
        check_optional_text("key", key),
        check_optional_text("reason", reason, MAX_NOTE),
        check_optional_text("actor", actor),
        dry_run,
    )


def retry_command(step: str | int | None, version: int | None) -> RetryRun:
    return RetryRun(check_step("step", step), _check_version(version))


def rerun_command(from_step: str | int | None, version: int | None) -> Rerun:
    return Rerun(check_step("from_step", from_step), _check_version(version))


def skip_command(step: str | int, value: str) -> Skip:
    named = check_step("step", step)
    if named is None:
        raise Invalid("No step is named. Name the one to skip by its id, or by the address or number of its record.")
    return Skip(named, value)


def is_event(to: object) -> bool:
    """Whether a rollback goes to an event, by its number, and not to a step."""
    if not isinstance(to, int | str):
        raise Invalid(f"to is {shown(to)}; name a step, or an event by its number.")
    return isinstance(to, int) or (to.isascii() and to.isdigit())


def command_named(action: str, version: int | None) -> Command:
    """The command that an action's name stands for, for any number of runs."""
    if version is not None and action not in ("retry", "rerun"):
        raise Invalid(f"version is {version!r}, but only retry and rerun take one; leave it out for {action}.")
    match action:
        case "cancel":
            return Cancel()
        case "pause":
            return Pause()
        case "resume":
            return Resume()
        case "retry":
            return retry_command(None, version)
        case "rerun":
            return rerun_command(None, version)
        case _:
            raise Invalid(f"The action is {shown(action)}; allowed are {', '.join(ACTIONS)}.")


def changed_or_raise(answers: Sequence[Changed | StepfastError]) -> Changed:
    """The answer to a single command; a refusal is raised."""
    [answer] = answers
    if isinstance(answer, StepfastError):
        raise answer
    return answer


def check_step(what: str, step: str | int | None) -> str | None:
    """A step by its name, its address or the number of its record."""
    if isinstance(step, int):
        return str(check_whole(what, step, 1))
    return check_optional_text(what, step)


def _check_version(version: object) -> int | None:
    return None if version is None else check_whole("version", version, 1, MAX_VERSION)
