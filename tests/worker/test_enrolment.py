"""What a worker learns when it announces itself."""

from __future__ import annotations

from stepfast import Stepfast
from stepfast.engine.clock import SystemClock
from stepfast.kernel.durations import Instant
from tests.support.workflows import say


class ListeningClock(SystemClock):
    """Remembers what it was told of the store's time."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Instant] = []

    def follow(self, store_now: Instant, asked_at: Instant) -> None:
        self.told.append(store_now)


async def test_the_clock_follows_the_stores_before_the_first_heartbeat(database, monkeypatch):
    clock = ListeningClock()
    app = Stepfast(database, workflows=[say], worker=False, clock=clock)
    async with app:
        store = app._open_parts().store
        enrol, answers = store.enrol, []

        async def listened(enrolment):
            answer = await enrol(enrolment)
            answers.append(answer.now)
            return answer

        monkeypatch.setattr(store, "enrol", listened)
        worker = app.worker(lease="1m")
        await worker.start()
        assert clock.told[:1] == answers
        await worker.stop()
