"""Workflows for worker processes. Steps tell the test through named pipes how far they are, and wait for it there."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from pathlib import Path

from stepfast import Stepfast, step, workflow
from stepfast.cli import leaving
from tests.cli.processes import LATE_DEADLINE, PATIENT

LONG_S = 60

# This machine may stand still for longer than a worker that leaves has to hand its runs back.
if PATIENT in os.environ:
    leaving.RETIRE_S = leaving.SILENT_S = LONG_S
if LATE_DEADLINE in os.environ:
    leaving.HAND_BACK_S = LONG_S / 2


def tell(folder: str, word: str) -> None:
    """Write to the pipe of that name; returns when somebody reads it."""
    Path(folder, word).write_text(str(os.getpid()))


def tell_and_hang(folder: str) -> None:
    """Stay where nobody can be stopped."""
    tell(folder, "begun")
    threading.Event().wait(LONG_S)


def first_time(folder: str) -> bool:
    """Whether this is asked for the first time, in any process."""
    try:
        Path(folder, "was_here").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@step
async def hang_once(folder: str) -> int:
    if first_time(folder):
        await asyncio.to_thread(tell, folder, "begun")
        await asyncio.Event().wait()
    return os.getpid()


@step
def hang_once_in_a_thread(folder: str) -> int:
    if first_time(folder):
        tell_and_hang(folder)
    return os.getpid()


@step
async def block_the_loop_once(folder: str) -> int:
    if first_time(folder):
        tell_and_hang(folder)
    return os.getpid()


@step
async def hang_in_a_thread_of_its_own(folder: str) -> int:
    if first_time(folder):
        await asyncio.to_thread(tell_and_hang, folder)
    return os.getpid()


@step
async def wait_for_the_test(folder: str, pipe: str) -> int:
    await asyncio.to_thread(tell, folder, f"begun-{pipe}")
    await asyncio.to_thread(Path(folder, f"release-{pipe}").read_text)
    return os.getpid()


@step
def end_a_copy_once(folder: str) -> int | None:
    """How a copy of this process (fork) ended that was told to; None if another call has told one before."""
    if not first_time(folder):
        return None
    copy = multiprocessing.get_context("fork").Process(target=threading.Event().wait, args=(LONG_S,))
    copy.start()
    copy.terminate()
    copy.join()
    return copy.exitcode


@step
async def who() -> int:
    return os.getpid()


@workflow
async def hanging(folder: str) -> int:
    return await hang_once(folder)


@workflow
async def hanging_in_a_thread(folder: str) -> int:
    return await hang_once_in_a_thread.aio(folder)


@workflow
async def blocking(folder: str) -> int:
    return await block_the_loop_once(folder)


@workflow
async def leaving_a_thread(folder: str) -> int:
    return await hang_in_a_thread_of_its_own(folder)


@workflow
async def ending_a_copy(folder: str) -> int | None:
    return await end_a_copy_once.aio(folder)


@workflow
async def two_steps(folder: str) -> int:
    await wait_for_the_test(folder, "a")
    return await who()


@workflow
async def meeting(folder: str, pipe: str) -> int:
    return await wait_for_the_test(folder, pipe)


grown: list[bytes] = []


@step
async def grow() -> None:
    grown.append(b"x" * 200_000_000)


@workflow
async def growing() -> None:
    """Makes its worker larger for as long as it lives."""
    await grow()


@workflow
async def quick() -> int:
    return await who()


app = Stepfast()
