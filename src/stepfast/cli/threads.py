"""Threads that code in a command's event loop has begun, as `asyncio.to_thread` does."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor


class Unawaited(ThreadPoolExecutor):
    """Threads that the end of a loop does not wait for; whoever ends the process sees to those that go on."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)


def leave_threads_behind() -> None:
    """Have the running loop end although a thread goes on: nobody can stop one, and it may go on for hours."""
    asyncio.get_running_loop().set_default_executor(Unawaited(thread_name_prefix="asyncio"))
