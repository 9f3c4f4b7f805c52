"""`stepfast executors`: what steps can call by name, and whether it works."""

from __future__ import annotations

import pytest

from tests.cli.invoking import invoke
from tests.executors.packages import write_package

GALLERY = ("--app", "tests.cli.gallery:app")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A folder without a project and without a database: these commands need neither."""
    monkeypatch.chdir(tmp_path)


async def test_executors_are_a_table_for_people():
    done = await invoke("executors", "list", "--domain", "art", *GALLERY)
    rows = [line.split(maxsplit=5) for line in done.out.splitlines()]
    assert rows[0] == ["executor", "domain", "kind", "queue", "origin", "description"]
    assert rows[-1] == ["art.paint", "art", "class", "studio", "tests.cli.gallery", "Paints things."]


async def test_as_json_they_have_their_schemas():
    done = await invoke("executors", "list", "--domain", "art", "-o", "json", *GALLERY)
    painter = next(item for item in done.json["items"] if item["name"] == "art.paint")
    assert (painter["inputs"]["required"], painter["output"]["type"]) == (["motif"], "array")
    assert (painter["config"] is None, painter["has_health"], done.json["problems"]) == (False, True, [])


async def test_without_an_app_they_are_the_built_in_ones_and_those_of_packages(tmp_path, monkeypatch):
    code = "class Fax:\n    name = 'cli.fax'\n    def execute(self) -> None: ..."
    write_package(tmp_path, "cli-fax", "[stepfast.executors]\nfax = cli_fax:Fax\n", cli_fax=code)
    monkeypatch.syspath_prepend(tmp_path)
    names = [item["name"] for item in (await invoke("executors", "list", "-o", "json")).json["items"]]
    assert {"command.run", "http.call", "python.call", "cli.fax"} <= set(names)


async def test_a_broken_package_is_listed_with_its_error(tmp_path, monkeypatch):
    write_package(tmp_path, "cli-broken", "[stepfast.executors]\nfax = cli_broken:Fax\n", cli_broken="1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    done = await invoke("executors", "list")
    (row,) = [line.split(maxsplit=4) for line in done.out.splitlines() if line.startswith("fax")]
    assert (done.code, row) == (0, ["fax", "broken", "cli-broken", "1.2", "ZeroDivisionError: division by zero"])
    (problem,) = (await invoke("executors", "list", "-o", "json")).json["problems"]
    assert (problem["name"], problem["error"]) == ("fax", "ZeroDivisionError: division by zero")


async def test_a_broken_package_is_unhealthy_too_where_all_are_asked(tmp_path, monkeypatch):
    write_package(tmp_path, "cli-ill", "[stepfast.executors]\nill = cli_ill:Fax\n", cli_ill="raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    done = await invoke("executors", "health")
    (row,) = [line.split(maxsplit=2) for line in done.out.splitlines() if line.startswith("ill")]
    assert (done.code, row) == (1, ["ill", "broken", "cli-ill 1.2: SystemExit: 0"])
    (problem,) = (await invoke("executors", "health", "-o", "json")).json["problems"]
    assert (problem["name"], problem["error"]) == ("ill", "SystemExit: 0")
    assert (await invoke("executors", "health", "http.call")).code == 0


async def test_executors_that_are_well_say_so():
    done = await invoke("executors", "health", "art.paint", "http.call", *GALLERY)
    assert (done.code, [line.split()[:2] for line in done.out.splitlines()[1:]]) == (
        0,
        [["art.paint", "ok"], ["http.call", "ok"]],
    )


async def test_one_that_is_not_well_is_the_exit_code():
    done = await invoke("executors", "health", "art.paint", "art.ill", "-o", "json", *GALLERY)
    assert (done.code, [item["ok"] for item in done.json["items"]]) == (1, [True, False])


async def test_one_that_hangs_is_told_after_its_time():
    done = await invoke("executors", "health", "--wait", "10ms", *GALLERY)
    assert (done.code, "hung: it gave no answer within 0.01 s" in done.out) == (1, True)


async def test_what_a_check_says_cannot_steer_a_terminal():
    done = await invoke("executors", "health", "art.ill", *GALLERY)
    assert "OSError: no \\x1b[31mpaint" in done.out


async def test_an_executor_that_is_not_there_is_not_found():
    done = await invoke("executors", "health", "art.pant", *GALLERY)
    assert (done.code, "E-EXE-001" in done.err, "'art.paint'" in done.err) == (3, True, True)
