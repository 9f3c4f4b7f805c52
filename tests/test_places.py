"""Where tests keep their files."""

from __future__ import annotations

import tempfile

import pytest

from tests.support import places


@pytest.fixture(autouse=True)
def nobody_chose(monkeypatch):
    # Set first, so that what a test makes of it is undone also where it was not there.
    monkeypatch.setenv("TMPDIR", "")
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_temporary_files_are_made_in_memory(tmp_path):
    places.keep_files_in_memory(tmp_path)
    assert tempfile.gettempdir() == str(tmp_path)


def test_a_place_that_somebody_chose_stays(tmp_path, monkeypatch):
    (tmp_path / "chosen").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "chosen"))
    places.keep_files_in_memory(tmp_path)
    assert tempfile.gettempdir() == str(tmp_path / "chosen")


def test_memory_without_room_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "ENOUGH_BYTES", 2**80)
    places.keep_files_in_memory(tmp_path)
    assert tempfile.gettempdir() != str(tmp_path)


def test_a_machine_without_such_a_folder_does_without(tmp_path):
    places.keep_files_in_memory(tmp_path / "missing")
    assert tempfile.gettempdir() != str(tmp_path / "missing")
