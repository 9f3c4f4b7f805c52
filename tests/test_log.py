"""The engine's own log: named events with fields, as text and as JSON."""

from __future__ import annotations

import ast
import json
import logging
from pathlib import Path

import pytest

from stepfast.log import EVENTS, JsonFormatter, Log, TextFormatter

# The level depends on the error, or is that of one nobody has foreseen.
BY_ERROR = {"exception", "failure"}
SOURCES = Path(__file__).resolve().parent.parent / "src" / "stepfast"
LEVELS = {"debug", "info", "warning", "error", *BY_ERROR}


def written_events() -> set[tuple[str, str]]:
    """Every event that the code writes, with its level."""
    calls = [
        node
        for file in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS
    ]
    return {
        (str(call.args[0].value), call.func.attr)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "log"
        and isinstance(call.args[0], ast.Constant)
    }


def test_every_event_of_the_table_is_written_somewhere_and_none_beside():
    assert {name for name, _ in written_events()} == set(EVENTS)


def test_events_have_the_level_that_the_table_says():
    wrong = {(name, level) for name, level in written_events() if level not in {EVENTS[name].level, *BY_ERROR}}
    assert wrong == set()


@pytest.fixture
def record(caplog):
    """A line of the log as it reaches a handler."""

    def write(**fields):
        with caplog.at_level(logging.INFO, "stepfast"):
            Log("worker").warning("run_let_go", **fields)
        return caplog.records[-1]

    return write


def test_a_line_is_an_event_with_its_fields(record):
    assert record(run_id="17", queues=("a", "b")).getMessage() == "run_let_go run_id=17 queues=a,b"


def test_a_line_stays_one_line_whatever_a_field_holds(record):
    assert record(reason='first\nsecond "third"').getMessage() == r'run_let_go reason="first\nsecond \"third\""'


def test_nothing_in_a_line_steers_a_terminal_or_ends_it(record):
    line = record(reason="red \x9b31m, back\u202ewards\u2028\x85 \ud800 é").getMessage()
    assert line == r'run_let_go reason="red \u009b31m, back\u202ewards\u2028\u0085 \ud800 é"'


def test_nothing_in_a_traceback_steers_a_terminal():
    error = ValueError("red \x1b[31m\nsecond line")
    raised = (ValueError, error, None)
    told = TextFormatter().format(logging.LogRecord("stepfast", logging.ERROR, "file.py", 1, "failed", (), raised))
    assert told.endswith("\nValueError: red \\u001b[31m\nsecond line")


def test_text_begins_with_moment_and_level(record):
    assert TextFormatter().format(record(run_id="17")).endswith("Z warning run_let_go run_id=17")


def test_json_has_the_fields_beside_the_event(record):
    line = json.loads(JsonFormatter().format(record(run_id="17", tenant="acme")))
    del line["at"]
    expected = {
        "level": "warning",
        "logger": "stepfast.worker",
        "event": "run_let_go",
        "run_id": "17",
        "tenant": "acme",
    }
    assert line == expected


def test_json_takes_lines_of_others_too():
    foreign = logging.LogRecord("asyncio", logging.WARNING, "file.py", 1, "took %s s", (3,), None)
    assert json.loads(JsonFormatter().format(foreign))["message"] == "took 3 s"


def test_the_library_adds_no_handler():
    assert logging.getLogger("stepfast").handlers == []
