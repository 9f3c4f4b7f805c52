"""Hints between processes: that something is ready, or has ended. They make things quick; polling makes them sure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stepfast.errands import begin_errand
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ports import Store
from stepfast.log import Log

log = Log("hints")

# Under load one hint speaks for all that happened meanwhile: the more happens, the more of it.
APART_S = 0.005
FURTHEST_APART_S = 0.025
MANY = 20
# How long what nobody is known to wait for may wait for company.
PATIENCE_S = 0.05

ENDED = "ended"
READY = "ready:"
LOOK = "look:"
DEFINED = "defined"
ANY_QUEUE = "*"


def ready(queue: str) -> str:
    """The topic of new work in a queue."""
    return f"{READY}{queue}"


def look(run_id: str) -> str:
    """The topic of something that came for a run while it is held."""
    return f"{LOOK}{run_id}"


class Hints:
    """Sends the hints of a process, a few milliseconds apart at least, and passes on those of the others."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._topics: set[str] = set()
        self._told = 0
        self._sender: asyncio.Task[None] | None = None
        self._patient: set[str] = set()
        self._patience: asyncio.TimerHandle | None = None
        self.on_ended: Callable[[], None] = lambda: None
        self.on_ready: Callable[[str], None] = lambda queue: None
        self.on_defined: Callable[[], None] = lambda: None
        self.on_look: Callable[[str], None] = lambda run_id: None

    async def open(self) -> None:
        await self._store.hear(self._heard)

    async def close(self) -> None:
        """Send what is left, then stop."""
        if self._patience is not None:
            self._patience.cancel()
            self._lose_patience()
        if self._sender is not None:
            await self._sender

    def send(self, topic: str) -> None:
        """Let the other processes know, soon."""
        self._told += 1
        self._topics.add(topic)
        if self._sender is None:
            self._sender = begin_errand(self._send_all(), "stepfast-hints")

    def send_along(self, topic: str) -> None:
        """Let the other processes know with the next hint, or in a short while: whoever waits for it is here."""
        self._patient.add(topic)
        if self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(PATIENCE_S, self._lose_patience)

    def _lose_patience(self) -> None:
        self._patience = None
        for topic in self._patient:
            self.send(topic)

    async def _send_all(self) -> None:
        apart_s = APART_S
        try:
            while self._topics:
                topics, self._topics = sorted(self._topics | self._patient), set()
                self._patient.clear()
                self._told = 0
                await self._store.hint(topics)
                await asyncio.sleep(apart_s)
                apart_s = min(2 * apart_s, FURTHEST_APART_S) if self._told > MANY else APART_S
        except StepfastError:
            # A hint may get lost; whoever waits for it looks by itself.
            self._topics.clear()
        except Exception:
            log.exception("hint_failed")
            self._topics.clear()
        finally:
            self._sender = None

    def _heard(self, topic: str) -> None:
        if topic == ENDED:
            self.on_ended()
        elif topic == DEFINED:
            self.on_defined()
        elif topic.startswith(READY):
            self.on_ready(topic.removeprefix(READY))
        elif topic.startswith(LOOK):
            self.on_look(topic.removeprefix(LOOK))
