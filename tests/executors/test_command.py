"""`command.run`: a program, without a shell, within limits."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from stepfast import CommandFailed, Invalid, NotAllowed, StepTimeout
from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin import command
from stepfast.workflows.executors.builtin.command import CommandConfig, CommandRun

PROGRAMS, VARIABLES = ("sh", "cat", sys.executable, "no-such-program"), ("WORD", "HOME")
RUN = CommandRun(Allowed(commands=PROGRAMS, command_env=VARIABLES))


async def run(script: str, **options):
    return await RUN.execute(["sh", "-c", script], **options)


async def test_it_gives_the_exit_code_and_what_was_written():
    answer = await run("echo out; echo err >&2")
    assert answer == {"code": 0, "stdout": "out\n", "stderr": "err\n", "truncated": False}


async def test_arguments_reach_the_program_as_they_are():
    text = "$(echo no); `rm` | > & * \n'\""
    answer = await RUN.execute([sys.executable, "-c", "import sys; sys.stdout.write(sys.argv[1])", text])
    assert answer["stdout"] == text


async def test_a_text_is_its_input():
    assert (await RUN.execute(["cat"], input="words\n" * 20_000))["stdout"] == "words\n" * 20_000


async def test_a_program_need_not_read_its_input():
    assert (await run("exec <&-; echo done", input="x" * 1_000_000))["stdout"] == "done\n"


async def test_a_bad_end_is_a_failure_that_shows_what_was_written():
    with pytest.raises(CommandFailed, match=r"ended with code 3: it broke") as failed:
        await run("echo it broke >&2; exit 3")
    assert failed.value.code == "E-EXE-002"


async def test_an_error_does_not_tell_the_workers_own_variables(monkeypatch):
    monkeypatch.setenv("WORD", "a long secret")
    with pytest.raises(CommandFailed, match=r"ended with code 1: no \*\*\* here"):
        await run('echo "no $WORD here" >&2; exit 1', env=["WORD"])


async def test_unchecked_a_bad_end_is_an_answer():
    assert (await run("exit 3", check=False))["code"] == 3


async def test_only_programs_that_are_named_are_run():
    with pytest.raises(NotAllowed, match="STEPFAST_COMMANDS") as refused:
        await RUN.execute(["/bin/sh", "-c", "true"])
    assert refused.value.code == "E-EXE-003"


async def test_by_default_no_program_is_allowed():
    with pytest.raises(NotAllowed):
        await CommandRun(Allowed()).execute(["true"])


async def test_a_star_allows_every_program():
    assert (await CommandRun(Allowed(commands=("*",))).execute(["/bin/sh", "-c", "true"]))["code"] == 0


async def test_a_program_that_is_not_installed_may_be_found_by_another_worker():
    with pytest.raises(CommandFailed, match="no program 'no-such-program'"):
        await RUN.execute(["no-such-program"])


@pytest.mark.parametrize("args", [[], [""], ["sh", "a\0b"]], ids=repr)
async def test_arguments_that_no_program_can_have_are_refused(args):
    with pytest.raises(Invalid):
        await RUN.execute(args)


async def test_a_program_has_only_the_variables_that_are_named(monkeypatch):
    monkeypatch.setenv("WORD", "its own")
    monkeypatch.setenv("SECRET", "key")
    script = [sys.executable, "-c", "import os; print(sorted(set(os.environ) & {'WORD', 'HOME', 'SECRET', 'PATH'}))"]
    assert (await RUN.execute(script))["stdout"] == "[]\n"
    assert (await RUN.execute(script, env=["WORD"]))["stdout"] == "['WORD']\n"


async def test_a_variable_is_the_workers_own_or_given(monkeypatch):
    monkeypatch.setenv("WORD", "its own")
    assert (await run("echo $WORD", env=["WORD"]))["stdout"] == "its own\n"
    assert (await run("echo $WORD", env={"WORD": "given"}))["stdout"] == "given\n"


async def test_a_name_that_is_allowed_and_not_set_is_left_out(monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    assert (await run("echo ${HOME-unset}", env=["HOME"]))["stdout"] == "unset\n"


@pytest.mark.parametrize("env", [["SECRET"], {"LD_PRELOAD": "evil.so"}], ids=repr)
async def test_a_variable_that_is_not_allowed_is_refused(env):
    with pytest.raises(NotAllowed, match="STEPFAST_COMMAND_ENV"):
        await run("true", env=env)


async def test_it_runs_where_it_is_told_to(tmp_path):
    assert (await run("pwd -P", cwd=str(tmp_path)))["stdout"].strip() == str(tmp_path.resolve())


def tool(folder: Path, word: str) -> None:
    folder.mkdir()
    (folder / "tool").write_text(f"#!/bin/sh\necho {word}\n")
    (folder / "tool").chmod(0o755)


async def said_by_a_tool_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What an allowed program says when a step chooses a folder that has another one of that name."""
    tool(tmp_path / "own", "own")
    tool(tmp_path / "other", "other")
    monkeypatch.chdir(tmp_path / "own")
    answer = await CommandRun(Allowed(commands=("./tool",))).execute(["./tool"], cwd=str(tmp_path / "other"))
    return answer["stdout"].strip()


async def test_the_folder_of_a_step_does_not_choose_the_program(tmp_path, monkeypatch):
    assert await said_by_a_tool_elsewhere(tmp_path, monkeypatch) == "own"


async def test_found_by_the_folder_the_program_would_be_another(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "abspath", lambda path: path)
    assert await said_by_a_tool_elsewhere(tmp_path, monkeypatch) == "other"


@pytest.mark.parametrize("options", [{"env": {"WORD": "a\0b"}}, {"cwd": "a\0b"}, {"env": {"WORD": "\ud800"}}], ids=repr)
async def test_texts_that_no_system_takes_are_refused_for_good(options):
    with pytest.raises(Invalid, match="cannot be started so"):
        await run("true", **options)


async def test_a_folder_that_is_not_there_is_a_failure(tmp_path):
    with pytest.raises(CommandFailed, match="could not be started"):
        await run("true", cwd=str(tmp_path / "absent"))


async def test_what_is_written_beyond_the_bound_is_cut_and_told():
    answer = await run("yes | head -c 1000000; echo end >&2", config=CommandConfig(max_output_bytes=10))
    assert (answer["stdout"], answer["stderr"], answer["truncated"]) == ("y\n" * 5, "end\n", True)


async def test_what_fits_exactly_is_whole():
    answer = await run("printf 12345", config=CommandConfig(max_output_bytes=5))
    assert (answer["stdout"], answer["truncated"]) == ("12345", False)


async def test_by_choice_writing_too_much_is_a_failure_at_once():
    with pytest.raises(Invalid, match="more than 10 bytes"):
        await run("yes", config=CommandConfig(max_output_bytes=10, on_overflow="fail"))


async def test_bytes_that_are_no_text_are_replaced():
    assert (await run(r"printf '\377'"))["stdout"] == "\ufffd"


async def test_a_program_that_takes_too_long_is_killed():
    with pytest.raises(StepTimeout, match=r"did not end within 0\.05 s"):
        await run("exec sleep 1000", config=CommandConfig(timeout="50ms"))


@pytest.mark.parametrize(
    "config", [{"timeout": "soon"}, {"timeout": 0}, {"max_output_bytes": 10**9}, {"max_memory_bytes": 1}], ids=repr
)
async def test_limits_beyond_all_measure_are_refused(config):
    with pytest.raises(Invalid):
        await run("true", config=CommandConfig(**config))


@pytest.fixture
def line(tmp_path):
    """A pipe that a program and its children hold open; whoever reads it meets its end when they are all gone."""
    path = tmp_path / "line"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, reading
    os.close(reading)


FAMILY = "exec 3>line; sleep 1000 & echo $! > child; echo begun >&3; wait"


async def cancelled_family(folder: Path, reading: int) -> None:
    """A program with a child of its own, called off when both run."""
    running = asyncio.ensure_future(run(FAMILY, cwd=str(folder)))
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(reading, begun.set)
    await begun.wait()
    loop.remove_reader(reading)
    assert os.read(reading, 100) == b"begun\n"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_called_off_it_ends_with_all_that_it_has_started(line):
    path, reading = line
    await cancelled_family(path.parent, reading)
    os.set_blocking(reading, True)
    assert await asyncio.to_thread(os.read, reading, 100) == b""


async def test_without_the_group_its_children_would_go_on(line, monkeypatch):
    path, reading = line
    monkeypatch.setattr(command._Session, "_kill", lambda self: self._process.kill())
    await cancelled_family(path.parent, reading)
    try:
        with pytest.raises(BlockingIOError):
            os.read(reading, 100)
    finally:
        os.kill(int((path.parent / "child").read_text()), signal.SIGKILL)


LEAVING = "exec 3>line; sleep 1000 >/dev/null 2>&1 & echo $! > child"


async def test_what_a_program_leaves_behind_ends_with_it(line):
    path, reading = line
    await run(LEAVING, cwd=str(path.parent))
    os.set_blocking(reading, True)
    assert await asyncio.to_thread(os.read, reading, 100) == b""


async def test_not_ended_what_a_program_leaves_behind_would_outlive_it(line, monkeypatch):
    path, reading = line
    monkeypatch.setattr(command._Session, "_kill", lambda self: None)
    await run(LEAVING, cwd=str(path.parent))
    try:
        with pytest.raises(BlockingIOError):
            os.read(reading, 100)
    finally:
        os.kill(int((path.parent / "child").read_text()), signal.SIGKILL)
