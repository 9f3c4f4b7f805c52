"""Where output cannot go: nobody reads it, the disk is full, or the terminal lacks a character."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from click import unstyle
from rich.console import Console

from stepfast import Stepfast, workflow
from stepfast.cli.printing import UNCUT, print_table
from tests.cli.office import WORKFLOWS, asking
from tests.cli.processes import ROOT, environment, stepfast


@pytest.fixture
async def database(tmp_path) -> str:
    url = f"sqlite:///{tmp_path}/app.db"
    async with Stepfast(url, workflows=WORKFLOWS, worker=False) as app:
        await app.start(asking, tags=["t"], subject="größe")
    return url


def written_to(descriptor: int, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stepfast", *args]
    pipe = subprocess.PIPE
    return subprocess.run(command, cwd=ROOT, env=environment(), stdout=descriptor, stderr=pipe, text=True, timeout=60)


@pytest.mark.parametrize("form", ["table", "json"])
def test_output_that_nobody_reads_ends_a_command_without_a_word(database, form):
    reader, writer = os.pipe()
    os.close(reader)
    done = written_to(writer, "runs", "list", "-o", form, "--database", database)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_is_read_in_part_ends_a_command_the_same_way(unbuffered, tmp_path):
    # More than any pipe takes at once.
    text = {"text": "x" * 2_000_000}
    (tmp_path / "long.py").write_text(f"from stepfast import workflow\n\n@workflow\ndef long():\n    return {text}\n")
    command = [sys.executable, "-m", "stepfast", "run", "long.py", "--database", f"sqlite:///{tmp_path}/app.db"]
    variables = environment(PYTHONUNBUFFERED=unbuffered)
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE) as printing:
        assert printing.stdout is not None
        printing.stdout.read(10)
        printing.stdout.close()
        assert printing.wait(timeout=60) == 141


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_run_is_watched_no_longer_than_somebody_reads(database, form):
    run_id = stepfast("runs", "list", "-o", "json", "--database", database).stdout.split('"')[5]
    command = [sys.executable, "-m", "stepfast", "runs", "watch", run_id, "-o", form, "--database", database]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        # The one event that there is: none follows, as nobody executes the run.
        assert b"queued" in watching.stdout.readline()
        watching.stdout.close()
        assert watching.wait(timeout=60) == 141


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_full_disk_ends_a_command_with_one_line(database, form):
    with Path("/dev/full").open("w") as full:
        done = written_to(full.fileno(), "runs", "list", "-o", form, "--database", database)
    assert (done.returncode, done.stderr.count("\n"), "No space left" in done.stderr) == (1, 1, True)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_that_cannot_be_written_ends_with_one_line_and_without_a_word_where_nobody_reads(word, unbuffered):
    variables = environment(PYTHONUNBUFFERED=unbuffered)
    command, pipe = [sys.executable, "-m", "stepfast", word], subprocess.PIPE
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, env=variables, stdout=full, stderr=pipe, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n"), "No space left" in done.stderr) == (1, 1, True)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, env=variables, stdout=writer, stderr=pipe, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_character_that_the_terminal_lacks_is_written_as_its_number(database):
    done = stepfast("runs", "list", "-o", "json", "--database", database, PYTHONIOENCODING="ascii")
    run_id = done.stdout.split('"')[5]
    done = stepfast("runs", "show", run_id, "--database", database, PYTHONIOENCODING="ascii")
    assert (done.returncode, "gr\\xf6\\xdfe" in done.stdout) == (0, True)


def test_a_line_of_a_table_on_a_terminal_ends_with_its_text():
    written = StringIO()
    terminal = Console(file=written, force_terminal=True, width=UNCUT)
    print_table(("level", "found"), [("ok", "failed"), ("warn", "what is longer than all else")], to=terminal)
    lines = unstyle(written.getvalue()).splitlines()
    assert (len(lines), [line for line in lines if line.endswith(" ")]) == (3, [])


# Short enough for a row, and long enough that looking at each of them from each of them would take a minute.
MANY_BLANKS = " " * 50_000


@pytest.mark.timeout(30)
def test_a_value_that_is_full_of_blanks_is_shown_at_once():
    written = StringIO()
    print_table(("input",), [(f"{MANY_BLANKS}.",)], to=Console(file=written, width=UNCUT))
    assert written.getvalue() == f"input\n{MANY_BLANKS}.\n"


def test_colours_that_are_asked_for_reach_a_pipe(database):
    done = stepfast("runs", "list", "--database", database, FORCE_COLOR="1", NO_COLOR="", TERM="xterm-256color")
    assert ("\x1b[" in done.stdout, "asking@1" in done.stdout) == (True, True)


def without_streams(closed: str, *args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A command that a shell has started with some of its streams closed."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "stepfast", *args]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=60)


TELLING_OF_STDOUT = """
import os
from stepfast import workflow

@workflow
def flow():
    for number in (1, 2):
        os.symlink(os.readlink(f"/proc/self/fd/{number}"), f"seen-{number}")
"""
CLOSED = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-", "all": "<&- >&- 2>&-"}


@pytest.mark.parametrize("closed", CLOSED.values(), ids=CLOSED)
@pytest.mark.parametrize(("body", "code"), [("return 7", 0), ("raise ValueError('no')", 1)], ids=["good", "bad"])
def test_a_run_without_streams_comes_to_its_usual_end(tmp_path, closed, body, code):
    (tmp_path / "flow.py").write_text(f"from stepfast import workflow\n\n@workflow\ndef flow():\n    {body}\n")
    done = without_streams(closed, "run", "flow.py", "--database", f"sqlite:///{tmp_path}/app.db", cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


@pytest.mark.parametrize("form", ["table", "json"])
def test_what_is_written_to_a_closed_stdout_goes_nowhere(database, form):
    done = without_streams(">&-", "runs", "list", "-o", form, "--database", database)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_file_of_the_database_takes_the_place_of_a_closed_stdout(tmp_path):
    """Else what a child of a step prints would be written into it."""
    (tmp_path / "flow.py").write_text(TELLING_OF_STDOUT)
    without_streams(">&-", "run", "flow.py", "--database", f"sqlite:///{tmp_path}/app.db", cwd=tmp_path)
    assert os.readlink(tmp_path / "seen-1") == os.readlink(tmp_path / "seen-2")


PRINTING = """
import os, subprocess, sys
from stepfast import Stepfast, step, workflow

def tell(who):
    print(f"print by {who}")
    sys.__stdout__.write(f"first stdout of {who}\\n")
    os.write(1, f"number of {who}\\n".encode())
    subprocess.run(["echo", f"child of {who}"], check=True)

@step
def told() -> int:
    tell("step")
    return 7

@workflow
def flow() -> int:
    return told()

tell("module")
app = Stepfast(workflows=[flow])
"""
WAYS = ("print by", "first stdout of", "number of", "child of")
IMPORTING = {
    "run": ("run", "flow.py"),
    "execute": ("runs", "execute", "RUN", "-o", "json", "--app", "flow.py"),
    "list": ("workflows", "list", "-o", "json", "--app", "flow.py"),
    "check": ("workflows", "check", "-o", "json", "--app", "flow.py"),
    "executors": ("executors", "list", "-o", "json", "--app", "flow.py"),
    "schema": ("workflows", "schema", "--app", "flow.py"),
    "doctor": ("doctor", "-o", "json", "--app", "flow.py"),
}


@pytest.fixture
def printing(tmp_path: Path) -> Path:
    """A folder with a file that prints in every way, when it is imported and in a step."""
    (tmp_path / "flow.py").write_text(PRINTING)
    return tmp_path


def printed_by(who: str, text: str) -> list[str]:
    """In which ways that one is seen to have printed there."""
    return [way for way in WAYS if f"{way} {who}" in text]


@pytest.fixture
async def waiting_run(printing: Path) -> str:
    """A run of that file which nobody has executed."""

    @workflow
    def flow() -> int:
        return 0

    async with Stepfast(f"sqlite:///{printing}/app.db", workflows=[flow], worker=False) as app:
        return (await app.start(flow)).id


@pytest.mark.parametrize("args", IMPORTING.values(), ids=IMPORTING)
def test_what_user_code_prints_is_kept_apart_from_the_answer(printing, waiting_run, args):
    args = tuple(waiting_run if word == "RUN" else word for word in args)
    done = stepfast(*args, cwd=printing, STEPFAST_DATABASE_URL=f"sqlite:///{printing}/app.db")
    assert (done.returncode, type(json.loads(done.stdout)) in (dict, int)) == (0, True), done.stderr
    assert sorted(printed_by("module", done.stderr)) == sorted(WAYS)
    assert printed_by("step", done.stderr) == (list(WAYS) if args[0] == "run" or "execute" in args else [])


def test_what_user_code_prints_would_mix_with_the_answer_if_stdout_were_not_kept(printing):
    """The broken twin."""
    command = "import sys; from stepfast.cli import client, main; client.keep_stdout = lambda: None; main.main()"
    args = [sys.executable, "-c", command, "run", "flow.py"]
    there = environment(STEPFAST_DATABASE_URL=f"sqlite:///{printing}/app.db")
    done = subprocess.run(args, cwd=printing, env=there, capture_output=True, text=True, timeout=60)
    assert [sorted(printed_by(who, done.stdout)) for who in ("module", "step")] == [sorted(WAYS)] * 2


def test_a_worker_leaves_stdout_to_user_code(printing, waiting_run):
    there = {"STEPFAST_DATABASE_URL": f"sqlite:///{printing}/app.db"}
    done = stepfast("worker", "--app", "flow.py", "--drain", cwd=printing, **there)
    assert [sorted(printed_by(who, done.stdout)) for who in ("module", "step")] == [sorted(WAYS)] * 2


ANY_KEY = f"k=ed25519-public:{'A' * 43}="


@pytest.mark.parametrize(
    ("closed", "args"), [(">&-", ["export", "-"]), ("<&-", ["verify", "--keys", ANY_KEY, "--file", "-"])]
)
def test_a_trail_is_neither_written_to_nor_read_from_a_stream_that_is_closed(database, closed, args):
    done = without_streams(closed, "audit", *args, "--database", database)
    assert (done.returncode, "There is no std" in done.stderr) == (2, True)
