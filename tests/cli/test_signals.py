"""What a process makes of signals that come more than once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from stepfast.cli import signals
from stepfast.cli.interrupts import heard_once
from stepfast.cli.signals import SAME_ASKING_S, Asking, Signals
from tests.cli.processes import environment

MEANWHILE_S = SAME_ASKING_S[signal.SIGTERM] / 2
LATER_S = SAME_ASKING_S[signal.SIGTERM] * 2

LEAVE_LATE = """
import atexit, os, signal, sys
from stepfast.cli.signals import SIGNALS, stay_deaf

SIGNALS.install()
atexit.register(os.kill, os.getpid(), signal.SIGTERM)
stay_deaf()
sys.exit(7)
"""


class Ended(Exception):
    """Stands for the end of the process."""


class Process:
    """A process under test: its signals, its time, and what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.stops = 0
        self.signals = Signals()
        self.signals._asking = Asking(lambda: self.now)
        monkeypatch.setattr(os, "_exit", self._end)

    def hears(self, number: int = signal.SIGTERM, after_s: float = 0.0) -> None:
        self.now += after_s
        self.signals._heard(number, None)

    def stop(self) -> None:
        self.stops += 1

    def _end(self, code: int) -> None:
        raise Ended(code)


@pytest.fixture
def process(monkeypatch):
    return Process(monkeypatch)


def test_a_process_that_holds_nothing_ends_at_the_first_signal(process):
    with pytest.raises(Ended, match="0"):
        process.hears()


def test_signals_that_come_together_ask_once(process):
    process.signals.ask(process.stop)
    process.hears()
    process.hears(after_s=MEANWHILE_S)
    assert process.stops == 1


def test_without_a_while_for_those_that_come_together_the_process_would_end(process, monkeypatch):
    monkeypatch.setitem(signals.SAME_ASKING_S, signal.SIGTERM, 0)
    process.signals.ask(process.stop)
    process.hears()
    with pytest.raises(Ended, match="143"):
        process.hears(after_s=MEANWHILE_S)


def test_a_signal_that_comes_later_is_meant(process):
    process.signals.ask(process.stop)
    process.hears()
    with pytest.raises(Ended, match="130"):
        process.hears(signal.SIGINT, after_s=LATER_S)


def test_a_person_who_presses_ctrl_c_twice_is_quicker(process):
    process.signals.ask(process.stop)
    process.hears(signal.SIGINT)
    with pytest.raises(Ended, match="130"):
        process.hears(signal.SIGINT, after_s=MEANWHILE_S)


def test_a_supervised_process_is_told_several_times_what_its_supervisor_heard_once(process):
    process.signals.ask(process.stop, is_supervised=True)
    process.hears()
    process.hears(after_s=LATER_S)
    assert process.stops == 1


@pytest.fixture
def interrupts():
    """How often the innermost handler of SIGINT was called."""
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    yield heard
    signal.signal(signal.SIGINT, before)


def test_interrupts_that_come_together_are_told_once(interrupts, monkeypatch):
    monkeypatch.setitem(signals.SAME_ASKING_S, signal.SIGINT, 1_000)
    with heard_once():
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
    assert interrupts == [signal.SIGINT]


def test_behind_the_block_interrupts_are_told_as_before(interrupts):
    with heard_once():
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    assert interrupts == [signal.SIGINT] * 2


def test_a_signal_after_the_work_does_not_change_the_exit_code():
    done = subprocess.run([sys.executable, "-c", LEAVE_LATE], env=environment(), timeout=60)
    assert done.returncode == 7
