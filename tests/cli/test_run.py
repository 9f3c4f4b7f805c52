"""`stepfast run`: a workflow of a file, and its result on stdout."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from stepfast import Stepfast
from tests.cli.invoking import Done, invoke
from tests.cli.office import HOSTILE
from tests.cli.processes import ROOT, environment, running, stepfast

OFFICE = str(ROOT / "tests" / "cli" / "office.py")


GREETING = """
from stepfast import Stepfast, step, workflow


@step
async def greet(name: str) -> dict[str, str]:
    return {"hello": name}


@workflow
async def greeting(name: str = "world") -> dict[str, str]:
    return await greet(name)
"""


STUCK = """
import asyncio, threading
from stepfast import Retry, Stepfast, step, workflow


@step(timeout="100ms", retry=Retry(attempts=1))
async def wait_in_a_thread() -> None:
    await asyncio.to_thread(threading.Event().wait)


@workflow
async def stuck() -> str:
    try:
        await wait_in_a_thread()
    except TimeoutError:
        return "given up"
    return "done"


app = Stepfast(workflows=[stuck])
"""


@pytest.fixture
def file(tmp_path):
    """A file with one workflow, and an app for it alone: this process knows those of all other tests too."""
    path = tmp_path / "greeting.py"
    path.write_text(f"{GREETING}\n\napp = Stepfast(workflows=[greeting])\n")
    return str(path)


async def run(database: str, *args: str) -> Done:
    return await invoke("run", *args, "--database", database)


def test_a_command_ends_although_a_thread_of_a_step_goes_on(tmp_path):
    (tmp_path / "stuck.py").write_text(STUCK)
    done = stepfast("run", "stuck.py", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, "given up")


async def test_the_result_is_json_alone_on_stdout(database, file):
    done = await run(database, file, '"ann"')
    assert (done.code, done.json) == (0, {"hello": "ann"})
    assert done.err.startswith("Run ")


async def test_the_only_workflow_of_a_file_needs_no_name_and_no_input(database, file):
    assert (await run(database, file)).json == {"hello": "world"}


async def test_the_run_is_stored_like_any_other(database, file):
    done = await run(database, file, "--tenant", "acme", "--key", "k")
    page = await invoke("runs", "list", "--tenant", "acme", "-o", "json", "--database", database)
    [item] = page.json["items"]
    assert (item["state"], item["key"], item["run_id"] in done.err) == ("completed", "k", True)


async def test_a_second_run_with_a_key_gives_the_first_result(database, file):
    results = [(await run(database, file, '"ann"', "--key", "k")).json for _ in range(2)]
    page = await invoke("runs", "list", "-o", "json", "--database", database)
    assert (results, len(page.json["items"])) == ([{"hello": "ann"}] * 2, 1)


FAMILY = """
from stepfast import Stepfast, each, sleep, step, workflow


@step(queue="apart")
async def double(number: int) -> int:
    return number * 2


@workflow(queue="children")
async def child(number: int) -> int:
    await sleep("10ms")
    return await double(number)


@workflow
async def parent(number: int) -> list[int]:
    return await each(child, range(number), spread=True)


@workflow
async def alone(number: int) -> int:
    return await double(number)


app = Stepfast(workflows=[parent, child, alone])
"""


async def test_nothing_is_executed_but_the_run_and_what_it_starts(database, tmp_path):
    path = tmp_path / "family.py"
    path.write_text(FAMILY)
    others = [("parent", "[3]"), ("child", "[3]"), ("alone", "[3]")]
    for workflow, given in others:
        done = await invoke("runs", "start", workflow, given, "--app", str(path), "--database", database)
        assert done.code == 0, done.err
    assert (await run(database, f"{path}:parent", "[30]")).json == [number * 2 for number in range(30)]
    page = await invoke("runs", "list", "--state", "pending", "-o", "json", "--database", database)
    assert sorted(item["workflow"] for item in page.json["items"]) == sorted(workflow for workflow, _ in others)


async def test_a_run_that_fails_ends_with_one_line(database):
    done = await run(database, f"{OFFICE}:failing")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1].startswith("E-RUN-007: Run ")
    assert (HOSTILE in done.err, "Traceback" in done.err) == (False, False)


async def test_a_failure_shows_its_traceback_when_asked_to(database):
    done = await run(database, f"{OFFICE}:failing", "--debug")
    assert (done.code, "Traceback" in done.err) == (1, True)


async def test_a_run_that_takes_too_long_is_left_in_the_store(database):
    done = await run(database, f"{OFFICE}:asking", "--timeout", "3s")
    page = await invoke("runs", "list", "-o", "json", "--database", database)
    assert (done.code, done.out, page.json["items"][0]["ended_at"]) == (124, "", None)


async def test_ctrl_c_gives_the_run_back(database):
    with running("run", f"{OFFICE}:asking", "--database", database) as command:
        run_id = (await command.says("of")).split()[1]
        command.process.send_signal(signal.SIGINT)
        assert await command.ends() == 130
        assert f"`stepfast runs why {run_id}` tells what it waits for." in await command.says("tells")
    shown = (await invoke("runs", "show", run_id, "-o", "json", "--database", database)).json
    assert (shown["ended_at"], shown["worker_id"], shown["crashes"]) == (None, None, 0)


LONG = """
import asyncio, sys
from stepfast import step, workflow

@step
async def long() -> None:
    print("It is under way now", file=sys.stderr, flush=True)
    await asyncio.Event().wait()

@workflow
async def working() -> None:
    await long()
"""


async def test_ctrl_c_says_at_once_how_long_steps_under_way_may_go_on(database, tmp_path):
    file = tmp_path / "long.py"
    file.write_text(LONG)
    with running("run", str(file), "--database", database, STEPFAST_GRACE="10ms") as command:
        await command.says("under way")
        command.process.send_signal(signal.SIGINT)
        assert "within 10ms; Ctrl-C again leaves at once." in await command.says("may finish")
        assert await command.ends() == 130


@pytest.mark.parametrize("form", ["json", "table"])
async def test_the_result_is_json_whatever_form_is_named(database, file, form):
    done = await run(database, file, '"ann"', "-o", form)
    assert (done.code, done.json) == (0, {"hello": "ann"})


INTERRUPTING = """
from stepfast import each, step, workflow

@step
async def stop(number: int) -> None:
    raise KeyboardInterrupt

@workflow
async def stopping() -> None:
    await each(stop, [1, 2], join="settled")

if __name__ == "__main__":
    stopping.run()
"""


async def handed_back(database: str) -> list[str]:
    """The last events of the only run, which nobody holds."""
    (shown,) = (await invoke("runs", "list", "-o", "json", "--database", database)).json["items"]
    assert (shown["ended_at"], shown["worker_id"], shown["crashes"]) == (None, None, 0)
    events = await invoke("runs", "events", shown["run_id"], "-o", "json", "--database", database)
    return [event["type"] for event in events.json["items"]]


async def test_an_interrupt_that_a_step_raises_leaves_as_ctrl_c_does(database, tmp_path):
    file = tmp_path / "stopping.py"
    file.write_text(INTERRUPTING)
    done = await asyncio.to_thread(stepfast, "run", str(file), "--database", database)
    assert (done.returncode, "was let go" in done.stderr, "Traceback" in done.stderr) == (130, True, False)
    assert "worker_lost_runs" not in done.stderr
    assert (await handed_back(database))[-1] == "handed_back"


async def test_a_blocking_run_that_a_step_interrupts_hands_it_back(database, tmp_path):
    file = tmp_path / "stopping.py"
    file.write_text(INTERRUPTING)
    program = [sys.executable, str(file)]
    there = environment(STEPFAST_DATABASE_URL=database)
    done = await asyncio.to_thread(subprocess.run, program, env=there, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "KeyboardInterrupt" in done.stderr) == (-signal.SIGINT, True)
    assert "worker_lost_runs" not in done.stderr
    assert (await handed_back(database))[-1] == "handed_back"


async def test_ctrl_c_before_the_run_is_stored_speaks_of_no_run(database, file, monkeypatch):
    async def interrupted(self: Stepfast, *args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Stepfast, "start", interrupted)
    done = await run(database, file)
    assert (done.code, done.out, "let go" in done.err) == (130, "", False)


MISTAKES = {
    "no file": ("absent.py", "absent.py cannot be imported"),
    "several workflows": (OFFICE, "has several workflows (asking, billing, checkout, failing, forgiving, sinking)"),
    "no workflow": ("tests.support.empty", "has no workflow"),
}


@pytest.mark.parametrize(("target", "complaint"), MISTAKES.values(), ids=MISTAKES)
async def test_a_target_that_names_no_workflow_is_refused(tmp_path, target, complaint):
    done = await run(f"sqlite:///{tmp_path}/app.db", target)
    assert (done.code, done.out, complaint in done.err) == (2, "", True), done.err
    assert list(tmp_path.iterdir()) == []


async def test_a_workflow_that_a_file_does_not_have_is_not_found_and_the_nearest_is_named(tmp_path):
    done = await run(f"sqlite:///{tmp_path}/app.db", f"{OFFICE}:chekout")
    assert (done.code, done.out, "Did you mean 'checkout'?" in done.err) == (3, "", True), done.err
    assert (done.err.startswith("E-VAL-006"), list(tmp_path.iterdir())) == (True, [])


async def test_a_file_that_is_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "script.py").symlink_to(tmp_path / "script.py")
    done = await run(f"sqlite:///{tmp_path}/app.db", str(tmp_path / "script.py"))
    assert (done.code, "there is no file" in done.err) == (2, True), done.err


async def test_a_file_with_the_name_of_a_module_of_python_s_own_is_told_of(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (tmp_path / "colorsys.py").write_text(f"{GREETING}\n\napp = Stepfast(workflows=[greeting])\n")
    done = await run(f"sqlite:///{tmp_path}/app.db", str(tmp_path / "colorsys.py"))
    assert (done.code, done.out) == (0, '{"hello": "world"}\n'), done.err
    assert "colorsys.py hides a module of Python's own" in done.err


async def test_a_file_that_ends_its_process_when_it_is_imported_is_refused(tmp_path):
    (tmp_path / "script.py").write_text("import sys\nsys.exit(7)\n")
    done = await run(f"sqlite:///{tmp_path}/app.db", str(tmp_path / "script.py"))
    assert (done.code, "cannot be imported: SystemExit: 7" in done.err) == (2, True)


def test_a_file_needs_no_app_and_a_terminal_shows_the_run(tmp_path):
    (tmp_path / "greeting.py").write_text(GREETING)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "stepfast", "run", "greeting.py"]
    try:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(TERM="xterm"), stdout=subprocess.PIPE, stderr=theirs
        )
        shown = os.read(ours, 100_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert (json.loads(done.stdout), shown.startswith("Run ")) == ({"hello": "world"}, True)
    assert (tmp_path / ".stepfast" / "stepfast.db").exists()
