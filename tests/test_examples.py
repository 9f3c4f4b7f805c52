"""The examples do what their pages say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepfast import RunState
from stepfast.sync import Stepfast
from tools.generate_docs import ROOT

KEYS = "1:" + "a" * 44


@pytest.fixture
def folder(tmp_path):
    """The example in a folder of its own, and nothing else."""
    shutil.copytree(ROOT / "examples" / "document_review", tmp_path / "example")
    return tmp_path / "example"


@pytest.fixture
def settings(database):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STEPFAST_")}
    return kept | {"STEPFAST_DATABASE_URL": database, "STEPFAST_TOKEN_KEYS": KEYS}


@contextmanager
def evaluating(folder, settings):
    """The first process of the example, killed by its own pid in the end."""
    command = [sys.executable, "evaluate.py", "letter.txt"]
    process = subprocess.Popen(command, cwd=folder, env=settings, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def until_it_waits(database):
    with Stepfast(database, workflows=[], worker=False) as app:
        while not any(run.state is RunState.WAITING for run in app.runs()):
            threading.Event().wait(0.02)


def answer(folder, settings, *words, token=None):
    shown = token or Path(folder, "outbox", "ann.token").read_text()
    command = [sys.executable, "answer.py", *words]
    return subprocess.run(command, cwd=folder, env=settings, input=shown, capture_output=True, text=True)


def test_a_document_is_approved_by_token_after_a_restart(folder, database, settings):
    with evaluating(folder, settings) as first:
        printed = [first.stdout.readline().strip() for _ in range(3)]
        until_it_waits(database)
    assert printed == [
        "reading letter.txt",
        "evaluating letter.txt",
        "asking ann: Is this evaluation of letter.txt right?",
    ]
    with evaluating(folder, settings) as second:
        assert answer(folder, settings, "continue").stdout == "Thank you.\n"
        told = second.communicate()[0].splitlines()
    assert told == ["publishing", "letter.txt: 22 words, good, approved by ann"]
    assert "Go on</strong> by ann" in Path(folder, "report.html").read_text()
    assert answer(folder, settings, "continue").stdout.startswith("E-REV-003: ")


def test_the_editor_may_correct_it(folder, database, settings):
    with evaluating(folder, settings) as process:
        until_it_waits(database)
        assert answer(folder, settings, "correct", '{"words": "many"}').returncode == 1
        charming = {"document": "letter.txt", "words": 22, "grade": "charming"}
        assert answer(folder, settings, "correct", json.dumps(charming)).returncode == 0
        assert process.communicate()[0].splitlines()[-1] == "letter.txt: 22 words, charming, approved by ann"


def test_the_editor_may_reject_it(folder, database, settings):
    with evaluating(folder, settings) as process:
        until_it_waits(database)
        assert answer(folder, settings, "reject").returncode == 0
        assert process.communicate()[0].splitlines()[-1] == "rejected"


@pytest.mark.parametrize(
    "program",
    [
        "contract_evaluation/evaluate.py",
        "document_review/evaluate.py",
        "invoice_approval/invoice.py",
        "nightly_evaluation/nightly.py",
    ],
)
def test_an_empty_database_variable_counts_as_not_set(program):
    look = "import runpy, sys; print(runpy.run_path(sys.argv[1])['app'].database)"
    command = [sys.executable, "-c", look, Path(program).name]
    folder, unset = ROOT / "examples" / Path(program).parent, os.environ | {"STEPFAST_DATABASE_URL": ""}
    done = subprocess.run(command, cwd=folder, env=unset, capture_output=True, text=True)
    assert done.stdout.startswith("sqlite:///")
