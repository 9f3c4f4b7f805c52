"""The command line: help, exit codes, migrate and demo."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import asyncpg
import pytest

from stepfast import IllegalMove, Invalid, NotFound, StepfastError, StoreUnavailable, WaitTimeout
from stepfast.cli.demo import _next_commands
from stepfast.cli.exits import exit_code_of
from stepfast.kernel.errors import InvalidDefinition, KeyReused, NothingBefore, Unstorable
from tests.cli.processes import ROOT, environment, stepfast
from tests.cli.shop import quick
from tests.support.apps import app_on

HEAVY = {"apsw", "asyncio", "asyncpg", "pydantic", "rich", "stepfast.app"}


def test_help_lists_the_commands():
    done = stepfast("--help")
    assert [name for name in ("demo", "migrate", "worker") if name not in done.stdout] == []


@pytest.mark.parametrize("command", [[], ["runs"], ["dead-letters"], ["workflows"]], ids=" ".join)
def test_help_imports_nothing_heavy(command):
    script = (
        "import sys\nfrom stepfast.cli.commands import cli\n"
        f"cli({[*command, '--help']}, standalone_mode=False)\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    assert (done.returncode, HEAVY & set(done.stderr.split())) == (0, set())


def test_the_package_imports_no_part_of_the_command_line():
    script = "import sys\nfrom stepfast import *\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    assert [name for name in done.stdout.split() if name.startswith(("rich", "click", "stepfast.cli"))] == []


def test_a_command_that_is_not_there_is_answered_with_the_nearest():
    done = stepfast("runs", "cancle")
    assert (done.returncode, "No such command 'cancle'. Did you mean 'cancel'?" in done.stderr) == (2, True)


@pytest.mark.parametrize("command", [["runs", "list"], ["queues", "list"], ["dead-letters", "list"]], ids=" ".join)
def test_a_command_that_looks_makes_no_database(tmp_path, command):
    done = stepfast(*command, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n"), list(tmp_path.iterdir())) == (1, 1, [])
    assert done.stderr.startswith("E-STORE-003: The store .stepfast/stepfast.db does not exist.")


def test_a_database_without_a_schema_is_told_of(postgres_url):
    done = stepfast("runs", "list", "--database", postgres_url)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert (done.stderr.startswith("E-STORE-002: "), "stepfast migrate" in done.stderr) == (True, True)


def test_a_database_that_cannot_be_reached_is_told_of_without_its_password():
    done = stepfast("runs", "list", "--database", "postgresql://me:secret@localhost:1/absent")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert (done.stderr.startswith("E-STORE-001: "), "secret" in done.stderr) == (True, False)


def test_a_database_url_that_is_wrong_is_a_mistake_and_no_outage():
    done = stepfast("runs", "list", "--database", "postgresql://me:pass/word@localhost:1/absent")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (done.stderr.startswith("E-VAL-001: "), "write @ as %40" in done.stderr) == (True, True)
    assert "word@" not in done.stderr


def test_the_log_level_debug_shows_tracebacks():
    done = stepfast("runs", "show", "nonsense", "--database", "sqlite:///absent.db", STEPFAST_LOG="debug")
    assert (done.returncode, "Traceback" in done.stderr) == (1, True)


def test_the_database_is_that_of_the_app_if_none_is_named(tmp_path):
    (tmp_path / "shop.py").write_text("from stepfast import *\n\n\n@workflow\ndef go() -> int:\n    return 1\n\n\n")
    with (tmp_path / "shop.py").open("a") as file:
        file.write("app = Stepfast('sqlite:///own.db')\n")
    stepfast("run", "shop.py", cwd=tmp_path)
    done = stepfast("runs", "list", cwd=tmp_path, STEPFAST_APP="shop.py:app", STEPFAST_DATABASE_URL="sqlite:///no.db")
    assert (done.returncode, "go@1" in done.stdout) == (0, True), done.stderr


CODES = {
    StepfastError: 1,
    StoreUnavailable: 1,
    Invalid: 2,
    InvalidDefinition: 1,
    Unstorable: 2,
    NotFound: 3,
    IllegalMove: 4,
    NothingBefore: 4,
    KeyReused: 4,
    WaitTimeout: 124,
}


@pytest.mark.parametrize(("kind", "code"), CODES.items(), ids=lambda value: getattr(value, "__name__", value))
def test_an_error_has_its_exit_code(kind, code):
    assert exit_code_of(kind("told")) == code


def test_an_error_is_one_line_with_its_code():
    done = stepfast("migrate", "--database", "mysql://somewhere")
    assert done.stderr.startswith("E-VAL-001: --database is 'mysql://somewhere'; allowed is sqlite:///file.db")
    assert done.stderr.count("\n") == 1


def test_an_unknown_option_is_a_mistake_of_usage():
    assert stepfast("worker", "--frobnicate").returncode == 2


NEAREST = {
    "--leas": " Did you mean '--lease'?",
    "--tenant": " Did you mean '--tenants'?",
    "--heartbeat": "",
    "--workers": "",
}


@pytest.mark.parametrize(("option", "hint"), NEAREST.items())
def test_an_unknown_option_comes_with_one_that_is_near_if_there_is_any(option, hint):
    assert stepfast("worker", option, "3").stderr.endswith(f"No such option '{option}'.{hint}\n")


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database(request, tmp_path):
    """The URL of a database that has no schema yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/app.db"
    return request.getfixturevalue("postgres_url")


async def works(database: str) -> int:
    async with app_on(database, [quick]) as app:
        return await (await app.start(quick)).result(timeout="30s")


async def test_migrate_makes_a_database_ready(empty_database):
    assert stepfast("migrate", "--database", empty_database).returncode == 0
    assert await works(empty_database)


def test_migrate_says_what_it_applied(empty_database):
    done = stepfast("migrate", "--database", empty_database)
    assert done.stdout.startswith("Applied 0001_")


def test_migrate_a_second_time_changes_nothing(empty_database):
    stepfast("migrate", "--database", empty_database)
    assert stepfast("migrate", "--database", empty_database).stdout.endswith("is up to date.\n")


def test_migrate_answers_in_json_alone(empty_database):
    done = stepfast("migrate", "-o", "json", STEPFAST_DATABASE_URL=empty_database)
    assert json.loads(done.stdout)["applied"][0].startswith("0001_")


async def test_migrate_prints_sql_that_makes_a_database_ready(postgres_url):
    script = stepfast("migrate", "--sql", "--database", postgres_url).stdout
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(script)
    await connection.close()
    assert await works(postgres_url)


def test_the_sql_for_sqlite_makes_a_file_ready_by_the_sqlite_of_the_system(tmp_path):
    database = f"sqlite:///{tmp_path}/app.db"
    with sqlite3.connect(tmp_path / "app.db") as connection:
        connection.executescript(stepfast("migrate", "--sql", "--database", database).stdout)
    connection.close()
    assert stepfast("migrate", "--database", database).stdout.endswith("is up to date.\n")


@pytest.mark.parametrize("url", ["sqlite:///app.db", "postgresql://db/app"])
def test_migrate_with_sql_answers_in_json_where_that_is_asked_for(url):
    script = stepfast("migrate", "--sql", "--database", url).stdout
    assert json.loads(stepfast("migrate", "--sql", "-o", "json", "--database", url).stdout) == {"sql": script}


def test_migrate_with_sql_changes_nothing(tmp_path):
    stepfast("migrate", "--sql", "--database", f"sqlite:///{tmp_path}/app.db")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def demo():
    return stepfast("demo")


PROMISED = [
    "kill -9",
    "step_completed reserve#1",
    "Result:",
    "times its body ran",
    "was under way when the worker died",
    "No finished step ran twice",
]


@pytest.mark.parametrize("promised", PROMISED)
def test_the_demo_shows_what_it_promises(demo, promised):
    assert promised in demo.stdout, demo.stderr


SHOP_WITH_A_DATABASE = """
from stepfast import Stepfast, workflow

@workflow
def sell() -> int:
    return 1

app = Stepfast("sqlite:///shop.db", workflows=[sell])
"""


def test_the_demo_of_an_installed_package_names_no_files_of_a_clone(tmp_path):
    assert [*_next_commands(tmp_path)] == ["stepfast run FILE.py", "stepfast --help"]
    assert [*_next_commands(ROOT)] == ["make test", ".venv/bin/python examples/order.py"]


WITHOUT_CODE = (
    ["runs", "list"],
    ["doctor"],
    ["migrate"],
    ["queues", "list"],
    ["workflows", "list"],
    ["runs", "retry", "--all", "--yes"],
)


@pytest.mark.parametrize("command", WITHOUT_CODE, ids=" ".join)
def test_a_command_that_needs_no_code_takes_an_app_that_knows_no_workflow(command, database, tmp_path):
    (tmp_path / "client.py").write_text(
        f"from stepfast import Stepfast\n\napp = Stepfast({database!r}, worker=False)\n"
    )
    done = stepfast(*command, "--app", "client:app", cwd=tmp_path)
    assert (done.returncode, "knows no workflow" in done.stderr) == (0, False), done.stderr


def test_a_command_that_needs_code_says_how_an_app_comes_to_its_workflows(tmp_path):
    (tmp_path / "client.py").write_text("from stepfast import Stepfast\n\napp = Stepfast(worker=False)\n")
    done = stepfast("workflows", "check", "--app", "client:app", cwd=tmp_path)
    assert (done.returncode, "Stepfast(url, workflows=[...])" in done.stderr) == (2, True), done.stderr


def test_migrate_means_the_database_of_the_app_that_is_named(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP_WITH_A_DATABASE)
    done = stepfast("migrate", "--app", f"{tmp_path}/shop.py:app", cwd=tmp_path)
    assert (done.returncode, "to sqlite:///shop.db" in done.stdout, (tmp_path / "shop.db").exists()) == (0, True, True)


OWN_STORE = """
from pathlib import Path

from stepfast import Stepfast
from stepfast.stores.sqlite.store import SqliteStore


def make_store(clock):
    return SqliteStore(Path("own.db"), clock.local)


app = Stepfast(make_store, workflows=[])
"""


@pytest.fixture
def own_store(tmp_path):
    (tmp_path / "shop.py").write_text(OWN_STORE)
    return tmp_path


@pytest.mark.parametrize(
    "command", [("runs", "list"), ("workers", "list"), ("queues", "list"), ("doctor",)], ids=" ".join
)
def test_commands_use_the_store_that_an_app_makes_itself(own_store, command):
    done = stepfast(*command, "-o", "json", "--app", "shop.py:app", cwd=own_store)
    assert (done.returncode, done.stderr) == (0, "")
    assert (own_store / "own.db").exists()


def test_a_store_of_the_app_s_own_is_not_migrated_from_here(own_store):
    done = stepfast("migrate", "--app", "shop.py:app", cwd=own_store)
    assert done.returncode == 2
    assert "shop.py:app has a store of its own, which shop.make_store makes." in done.stderr


def test_a_database_that_is_named_beats_the_store_of_an_app(own_store):
    database = f"sqlite:///{own_store}/named.db"
    assert stepfast("migrate", "--database", database, "--app", "shop.py:app", cwd=own_store).returncode == 0
    done = stepfast("workflows", "list", "--database", database, "--app", "shop.py:app", cwd=own_store)
    assert (done.returncode, (own_store / "own.db").exists()) == (0, False)
