"""What a run waits for and what has come for it, as its holder knows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stepfast.kernel.decisions import Message, OpenWait


class Mailbox:
    """The open waits of a run, who in its code waits for each, and the messages that nobody has taken yet."""

    def __init__(self, waits: Iterable[OpenWait], inbox: Iterable[Message]) -> None:
        self._waits = {wait.wait_id: wait for wait in waits}
        self._inbox = {message.n: message for message in inbox}
        self._taken: set[int] = set()
        self._waiters: dict[int, Callable[[], None]] = {}

    @property
    def is_awaited(self) -> bool:
        """Whether some branch of the code waits for something that can come."""
        return bool(self._waiters)

    def wait(self, wait_id: int) -> OpenWait | None:
        """A wait as the store last had it."""
        return self._waits.get(wait_id)

    def await_(self, wait: OpenWait, check: Callable[[], None]) -> None:
        """From now on `check` is called whenever something has come."""
        self._waits.setdefault(wait.wait_id, wait)
        self._waiters[wait.wait_id] = check

    def forget(self, wait_id: int) -> None:
        """Nobody waits for it any more."""
        self._waiters.pop(wait_id, None)
        self._waits.pop(wait_id, None)

    def take(self, kind: str, name: str, until: int | None) -> Message | None:
        """The oldest message of that name which came in time, now taken."""
        for n in sorted(self._inbox):
            message = self._inbox[n]
            if message.kind == kind and message.name == name and (until is None or message.at <= until):
                del self._inbox[n]
                self._taken.add(n)
                return message
        return None

    def update(self, waits: Iterable[OpenWait], inbox: Iterable[Message]) -> None:
        """The store was asked again: let everyone who waits look, in the order in which they began to wait."""
        self._waits.update((wait.wait_id, wait) for wait in waits)
        self._inbox = {message.n: message for message in inbox if message.n not in self._taken}
        for wait_id in sorted(self._waiters):
            check = self._waiters.get(wait_id)
            if check is not None:
                check()
