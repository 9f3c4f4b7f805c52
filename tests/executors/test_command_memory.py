"""`command.run` with a limit of memory: it holds from the first moment on, and changes nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stepfast import CommandFailed, Invalid
from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin.command import CommandConfig, CommandRun

RUN = CommandRun(Allowed(commands=("*",), command_env=("WORD", "LC_CTYPE", "LD_LIBRARY_PATH")))
FREE, LIMITED = CommandConfig(), CommandConfig(max_memory_bytes=256 * 1024 * 1024)


async def run(script: str, config: CommandConfig = LIMITED, **options):
    return await RUN.execute(["sh", "-c", script], config=config, **options)


async def test_a_program_has_no_more_memory_than_it_is_given():
    greedy = "print(len(bytearray(1 << 30)))"
    with pytest.raises(CommandFailed, match="MemoryError"):
        await RUN.execute([sys.executable, "-c", greedy], config=LIMITED)


async def test_a_program_has_its_limit_from_its_first_moment_on():
    assert (await run("ulimit -v"))["stdout"] == f"{256 * 1024}\n"


VARIABLES = [{}, {"WORD": "ä", "LC_CTYPE": "C"}, {"LD_LIBRARY_PATH": "/nowhere"}]


@pytest.mark.parametrize("env", VARIABLES, ids=repr)
async def test_it_has_no_variables_but_its_own(env, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")
    answer = await run("/usr/bin/env | sort", FREE, env=env)
    assert await run("/usr/bin/env | sort", env=env) == answer


async def test_it_heeds_the_signals_that_it_would_heed_without():
    looking = "grep -E 'Sig(Ign|Blk)' /proc/self/status"
    assert await run(looking) == await run(looking, FREE)


async def test_a_program_whose_reader_has_left_ends_without_a_word():
    assert (await run("yes | head -n 1"))["stderr"] == ""


async def test_it_has_no_files_but_its_own():
    # The last one is that of `ls` itself.
    assert (await run("exec ls /proc/self/fd"))["stdout"].split() == ["0", "1", "2", "3"]


def odd_program(folder: Path) -> str:
    (folder / "odd").write_bytes(b"\x7fELF")
    (folder / "odd").chmod(0o755)
    return str(folder / "odd")


@pytest.mark.parametrize("check", [True, False])
async def test_a_program_that_cannot_be_executed_is_a_failure_and_no_answer(tmp_path, check):
    told = set()
    for config in (FREE, LIMITED):
        with pytest.raises(CommandFailed, match=r"odd' could not be started: .*Exec format error") as failed:
            await RUN.execute([odd_program(tmp_path)], config=config, check=check)
        told.add(str(failed.value))
    assert len(told) == 1


async def test_a_folder_that_is_not_there_is_told_of_the_program(tmp_path):
    with pytest.raises(CommandFailed, match=r"sh' could not be started"):
        await run("true", cwd=str(tmp_path / "absent"))


# A worker with a hard limit of its own: 1 GiB, where the program is allowed 4.
UNDER_A_LIMIT = """
import asyncio, resource
from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin.command import CommandConfig, CommandRun
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
config = CommandConfig(max_memory_bytes=1 << 32)
answer = asyncio.run(CommandRun(Allowed(commands=("*",))).execute(["sh", "-c", "ulimit -v"], config=config))
print(answer["stdout"].strip())
"""


async def test_under_a_lower_limit_of_the_worker_that_one_holds():
    answer = await RUN.execute([sys.executable, "-c", UNDER_A_LIMIT], config=FREE)
    assert answer["stdout"] == f"{1024 * 1024}\n"


async def test_no_file_stays_open():
    await run("true")
    before = set(os.listdir("/proc/self/fd"))
    await run("true")
    with pytest.raises(CommandFailed):
        await run("true", cwd="/no/such/folder")
    # What is of earlier tests may be closed at any moment.
    assert set(os.listdir("/proc/self/fd")) <= before


async def test_a_frozen_application_cannot_limit(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(Invalid, match="cannot limit it"):
        await run("true")
