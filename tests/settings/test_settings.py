"""Settings: where a value comes from, and what becomes of one that does not fit."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from stepfast import Invalid, Retry, Stepfast, WorkerSettings
from stepfast.setting_kinds import LogSettings
from stepfast.settings import SETTINGS, Found, Settings, read_settings


def read(tmp_path, environment=None, options=None, project=""):
    (tmp_path / "pyproject.toml").write_text(project)
    return read_settings(options, environment or {}, tmp_path)


def test_without_any_source_the_defaults_hold(tmp_path):
    assert replace(read(tmp_path).worker, retry=Retry()) == Settings().worker


IN_WORDS = {"", "lease / 3", "host and pid"}


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.default not in IN_WORDS], ids=lambda s: s.name)
def test_the_default_in_the_table_is_the_default_in_force(setting, tmp_path):
    assert read(tmp_path, {setting.name: setting.default}) == read(tmp_path)


def test_an_option_beats_a_variable(tmp_path):
    options = {"STEPFAST_TENANT": Found("acme", "--tenant")}
    assert read(tmp_path, {"STEPFAST_TENANT": "other"}, options).tenant == "acme"


def test_a_variable_with_the_prefix_beats_the_plain_one(tmp_path):
    variables = {"STEPFAST_TENANT_BURST_LIMIT": "5", "TENANT_BURST_LIMIT": "7"}
    assert read(tmp_path, variables).worker.burst == 5


def test_a_plain_variable_beats_the_project(tmp_path):
    project = "[tool.stepfast]\ntenant_burst_limit = 9\n"
    assert read(tmp_path, {"TENANT_BURST_LIMIT": "7"}, project=project).worker.burst == 7


def test_the_project_beats_the_default(tmp_path):
    assert read(tmp_path, project='[tool.stepfast]\napp = "shop:app"\n').app == "shop:app"


def test_the_nearest_project_counts(tmp_path):
    folder = tmp_path / "src" / "shop"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.stepfast]\nconcurrency = 7\n")
    assert read_settings({}, {}, folder).worker.concurrency == 7


BESIDE_THE_PROJECT = {
    "a database": ("database_url", "sqlite:///a%20b.db", "database", "sqlite:///{folder}/a%20b.db"),
    "a database elsewhere": ("database_url", "sqlite:////srv/a.db", "database", "sqlite:////srv/a.db"),
    "a server": ("database_url", "postgresql://db/shop", "database", "postgresql://db/shop"),
    "blobs": ("blobs", "large", "blobs", "{folder}/large"),
    "blobs in the database": ("blobs", "database", "blobs", "database"),
    "blobs elsewhere": ("blobs", "file:///srv/large", "blobs", "file:///srv/large"),
    "seals": ("seal_file", "seals.jsonl", "seal_file", "{folder}/seals.jsonl"),
}


@pytest.mark.parametrize(("key", "given", "name", "meant"), BESIDE_THE_PROJECT.values(), ids=BESIDE_THE_PROJECT)
def test_what_is_relative_in_a_project_is_relative_to_its_file(key, given, name, meant, tmp_path):
    folder = tmp_path / "src"
    folder.mkdir()
    (tmp_path / "pyproject.toml").write_text(f'[tool.stepfast]\n{key} = "{given}"\n')
    assert getattr(read_settings({}, {}, folder), name) == meant.format(folder=tmp_path)


def test_a_key_of_the_project_may_have_hyphens(tmp_path):
    assert read(tmp_path, project="[tool.stepfast]\nmax-crashes = 5\n").worker.max_crashes == 5


def test_an_empty_variable_counts_as_not_set(tmp_path):
    assert read(tmp_path, {"STEPFAST_LEASE": ""}) == read(tmp_path)


def test_a_name_without_the_prefix_is_read_only_where_it_has_a_history(tmp_path):
    assert read(tmp_path, {"CONCURRENCY": "7", "LEASE": "1s"}) == read(tmp_path)


@pytest.mark.parametrize(("text", "ms"), [("30s", 30_000), ("45", 45_000), ("2m", 120_000), ("1.5", 1_500)])
def test_a_span_is_text_or_seconds(text, ms, tmp_path):
    assert read(tmp_path, {"STEPFAST_LEASE": text}).worker.lease_ms == ms


def test_the_heartbeat_is_a_third_of_the_lease(tmp_path):
    assert read(tmp_path, {"STEPFAST_LEASE": "9s"}).worker.heartbeat_ms == 3_000


def test_retries_count_apart_from_the_first_attempt(tmp_path):
    variables = {
        "WORKER_MAX_RETRIES": "3",
        "WORKER_RETRY_BACKOFF_BASE_MS": "200",
        "WORKER_RETRY_BACKOFF_MAX_MS": "5000",
    }
    base, cap = timedelta(milliseconds=200), timedelta(seconds=5)
    assert read(tmp_path, variables).worker.retry == Retry(attempts=4, base=base, cap=cap)


def test_a_queue_with_a_concurrency_of_its_own_beats_the_general_one(tmp_path):
    variables = {"STEPFAST_CONCURRENCY": "50", "WORKER_CONCURRENCY_EVAL_FAST": "2"}
    worker = read(tmp_path, variables).worker.serving(["parse", "eval-fast"])
    assert {queue: worker.room_of(queue) for queue in worker.queues} == {"default": 50, "eval-fast": 2, "parse": 50}


def test_a_queue_with_a_concurrency_of_its_own_is_served(tmp_path):
    worker = read(tmp_path, {"WORKER_CONCURRENCY_PARSE": "4"}).worker.serving([])
    assert worker.queues == ("default", "parse")


def test_queues_that_were_named_are_served_and_no_others(tmp_path):
    worker = read(tmp_path, {"WORKER_CONCURRENCY_PARSE": "4"}).worker
    assert type(worker)(queues=("eval",)).serving(["parse"]).queues == ("eval",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("debug,json", LogSettings("debug", "json")),
        ("json", LogSettings("info", "json")),
        ("error", LogSettings("error")),
    ],
)
def test_the_log_has_a_level_a_format_or_both(text, expected, tmp_path):
    assert read(tmp_path, {"STEPFAST_LOG": text}).log == expected


BAD = {
    "STEPFAST_CONCURRENCY": "0",
    "STEPFAST_LEASE": "soon",
    "STEPFAST_POLL": "-1s",
    "STEPFAST_ENV": "staging",
    "STEPFAST_LOG": "loud",
    "STEPFAST_MAX_CRASHES": "many",
    "STEPFAST_WORKER_CONCURRENCY_PARSE": "x",
    "WORKER_MAX_RETRIES": "-1",
}


@pytest.mark.parametrize(("name", "value"), BAD.items())
def test_a_bad_value_is_refused_with_its_name_and_what_is_allowed(name, value, tmp_path):
    with pytest.raises(Invalid, match=rf"{name} is '{value}'; allowed is .+\."):
        read(tmp_path, {name: value})


NO_PLACES = {
    "STEPFAST_DATABASE_URL": ("mysql://u:secret@h/x", "mysql://u:***@h/x", "sqlite:///file.db (relative)"),
    "STEPFAST_DATABASE_DIRECT_URL": ("mysql://u:secret@h/x", "mysql://u:***@h/x", "postgresql://user@host/database"),
    "STEPFAST_BLOBS": ("ftp://h/x", "ftp://h/x", "`database`, a folder, or file:///folder"),
}


@pytest.mark.parametrize(("name", "value", "shown", "allowed"), [(name, *told) for name, told in NO_PLACES.items()])
@pytest.mark.parametrize("is_variable", [True, False], ids=["a variable", "the project"])
def test_what_names_no_place_is_refused_with_its_own_place(name, value, shown, allowed, is_variable, tmp_path):
    key = name.removeprefix("STEPFAST_").lower()
    place = name if is_variable else rf"[tool.stepfast] {key} in {tmp_path}/pyproject.toml"
    project = "" if is_variable else f'[tool.stepfast]\n{key} = "{value}"\n'
    with pytest.raises(Invalid) as refused:
        read(tmp_path, {name: value} if is_variable else {}, project=project)
    assert str(refused.value).startswith(f"{place} is '{shown}'; allowed is {allowed}")


@pytest.mark.parametrize(
    "wrong",
    ["host=db password=secret", "u:secret@host:5432/db", "sqlite:///file.db", "somewhere", "postgresql://u:secret@["],
)
def test_a_direct_address_that_is_none_is_refused_without_its_password(wrong, tmp_path):
    with pytest.raises(Invalid, match=r"STEPFAST_DATABASE_DIRECT_URL is '.*'; allowed is postgresql://") as refused:
        read(tmp_path, {"STEPFAST_DATABASE_DIRECT_URL": wrong})
    assert "secret" not in str(refused.value)


def test_an_app_is_refused_a_database_that_is_none_by_the_name_of_the_argument():
    with pytest.raises(Invalid, match=r"^database is 'mysql://x'; allowed is sqlite:///"):
        Stepfast("mysql://x")


def test_all_bad_values_are_named_at_once(tmp_path):
    with pytest.raises(Invalid) as refused:
        read(tmp_path, BAD)
    assert [name for name in BAD if name not in str(refused.value)] == []


def test_a_bad_value_of_the_project_is_refused_with_its_file(tmp_path):
    with pytest.raises(Invalid, match=r"\[tool.stepfast\] lease in .*pyproject.toml is 'soon'"):
        read(tmp_path, project='[tool.stepfast]\nlease = "soon"\n')


NO_TEXT = {"a boolean": "true", "an array": '["a", "b"]', "a table": "{a = 1}", "a date or time": "2026-01-31"}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
@pytest.mark.parametrize(("kind", "value"), NO_TEXT.items(), ids=NO_TEXT)
def test_a_value_of_the_project_that_is_neither_text_nor_number_is_refused(kind, value, setting, tmp_path):
    words = rf"\[tool.stepfast\] {setting.key} in .*pyproject.toml is {kind}; allowed is"
    with pytest.raises(Invalid, match=words):
        read(tmp_path, project=f"[tool.stepfast]\n{setting.key} = {value}\n")


def test_the_concurrency_of_a_queue_in_the_project_is_a_number(tmp_path):
    with pytest.raises(Invalid, match=r"worker_concurrency_side in .* is an array; allowed is a whole number"):
        read(tmp_path, project="[tool.stepfast]\nworker_concurrency_side = [1]\n")


@pytest.mark.parametrize(("project", "place"), [("tool = 3", "tool"), ("[tool]\nstepfast = 3", "tool.stepfast")])
def test_a_project_whose_table_is_no_table_is_refused_with_its_file(project, place, tmp_path):
    with pytest.raises(Invalid, match=rf"^{place} in .*pyproject.toml is 3; allowed is a table, \[{place}\]\.$"):
        read(tmp_path, project=project)


TOO_MUCH = {
    "a long number": (f"concurrency = {'1' * 5_000}", "a whole number with too many digits"),
    "a long number elsewhere": (f"[tool.other]\nsize = {'1' * 5_000}", "a whole number with too many digits"),
    "a long number in hexadecimal": (f"concurrency = 0x{'f' * 5_000}", "concurrency in .* is a number of 20,000 bits"),
    "a deep array": (f"concurrency = {'[' * 50_000}", "is nested too deeply"),
    "a deep array elsewhere": (f"[tool.other]\nsize = {'[' * 50_000}", "is nested too deeply"),
    "a deep name": (f"concurrency{'.a' * 2_000} = 1", "concurrency in .* is a table"),
}


@pytest.mark.parametrize(("line", "said"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_project_that_is_too_much_to_read_is_refused_with_its_file(line, said, tmp_path):
    with pytest.raises(Invalid, match=said) as refused:
        read(tmp_path, project=f"[tool.stepfast]\n{line}\n")
    assert (refused.value.code, "pyproject.toml" in str(refused.value)) == ("E-VAL-001", True)
    assert "sys." not in str(refused.value)


TOO_SELDOM = {
    "the usual lease": ({}, "and the lease is 30s unless STEPFAST_LEASE says otherwise."),
    "a lease that was set": ({"STEPFAST_LEASE": "35s"}, "and STEPFAST_LEASE is '35s'."),
}


@pytest.mark.parametrize(("others", "lease"), TOO_SELDOM.values(), ids=TOO_SELDOM)
def test_a_heartbeat_that_is_too_seldom_for_the_lease_is_refused_naming_both(others, lease, tmp_path):
    words = f"STEPFAST_HEARTBEAT is '20s'; allowed is at most half of the lease, {lease}"
    settings = read(tmp_path, {"STEPFAST_HEARTBEAT": "20s", **others}).worker
    with pytest.raises(Invalid, match=re.escape(words)):
        settings.check()
    settings.with_lease(120_000).check()
    assert settings.with_lease(120_000).heartbeat_ms == 20_000


async def test_a_worker_whose_heartbeat_does_not_fit_its_lease_is_refused_at_its_start(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPFAST_HEARTBEAT", "20s")
    app = Stepfast(f"sqlite:///{tmp_path}/app.db", workflows=[])
    with pytest.raises(Invalid, match="STEPFAST_HEARTBEAT is '20s'"):
        await app.open()
    with pytest.raises(Invalid, match="STEPFAST_HEARTBEAT is '20s'"):
        app.worker()
    async with app.worker(lease="2m"):
        (worker,) = await app.workers.list()
        assert worker.lease_ms == 120_000


def test_a_heartbeat_is_not_measured_by_a_lease_that_cannot_be_read(tmp_path):
    with pytest.raises(Invalid, match="STEPFAST_LEASE is 'soon'") as refused:
        read(tmp_path, {"STEPFAST_HEARTBEAT": "20s", "STEPFAST_LEASE": "soon"})
    assert "STEPFAST_HEARTBEAT" not in str(refused.value)


def test_a_lease_too_short_for_a_heartbeat_of_the_environment_is_refused_naming_the_variable(tmp_path):
    settings = read(tmp_path, {"STEPFAST_HEARTBEAT": "14s"}).worker
    words = "lease is 10s; it must be at least twice the heartbeat, and STEPFAST_HEARTBEAT is '14s'."
    with pytest.raises(Invalid, match=re.escape(words)):
        settings.with_lease(10_000)


def test_a_lease_too_short_for_a_heartbeat_of_the_project_is_refused_naming_the_file(tmp_path):
    settings = read(tmp_path, project='[tool.stepfast]\nheartbeat = "14s"\n').worker
    with pytest.raises(Invalid, match=r"and \[tool.stepfast\] heartbeat in .*pyproject.toml is '14s'\."):
        settings.with_lease(10_000)


def test_a_heartbeat_that_was_set_to_a_third_of_the_usual_lease_stays_when_the_lease_changes(tmp_path):
    assert read(tmp_path, {"STEPFAST_HEARTBEAT": "10s"}).worker.with_lease(60_000).heartbeat_ms == 10_000


TOO_MUCH_OR_TOO_LITTLE = [
    ("STEPFAST_LEASE", "1ms", "from 100ms to 365d"),
    ("STEPFAST_LEASE", "1000d", "from 100ms to 365d"),
    ("STEPFAST_POLL", "0", "from 10ms to 1h"),
    ("STEPFAST_UPKEEP", "9ms", "from 10ms to 1h"),
    ("STEPFAST_HEARTBEAT", "1ms", "from 10ms to 100d"),
    ("STEPFAST_GRACE", "2d", "from 0s to 1d"),
    ("STEPFAST_CONCURRENCY", "0", "from 1 to 100,000"),
    ("STEPFAST_CONCURRENCY", "1000000", "from 1 to 100,000"),
    ("STEPFAST_WORKER_CONCURRENCY_PARSE", "0", "from 1 to 100,000"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), TOO_MUCH_OR_TOO_LITTLE)
def test_a_value_out_of_bounds_is_refused_with_the_bounds(name, value, allowed, tmp_path):
    with pytest.raises(Invalid, match=f"{name} is '{value}'; allowed is .*{allowed}"):
        read(tmp_path, {name: value})


def test_a_text_that_is_too_long_is_not_repeated_whole(tmp_path):
    with pytest.raises(Invalid, match=r"STEPFAST_TENANT is 'x{99}\.\.\.; allowed is text of 1 to 1,000 bytes"):
        read(tmp_path, {"STEPFAST_TENANT": "x" * 2_000})


BY_HAND: dict[str, tuple[Any, str]] = {
    "lease_ms": (99, "at least 100"),
    "heartbeat_ms": (20_000, "at most half of the lease"),
    "poll_ms": (0, "at least 10"),
    "upkeep_ms": (0, "at least 10"),
    "concurrency": (0, "at least 1"),
    "queue_concurrency": ({"parse": 0}, "at least 1"),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_settings_given_by_hand_are_refused_what_would_not_work(name):
    value, allowed = BY_HAND[name]
    with pytest.raises(Invalid, match=f"{name} is .* must be {allowed}"):
        WorkerSettings(**{name: value})


def test_an_unknown_name_comes_with_the_nearest_known_one(tmp_path):
    settings = read(tmp_path, {"STEPFAST_CONCURENCY": "7"})
    assert settings.unknown == (("STEPFAST_CONCURENCY", "STEPFAST_CONCURRENCY"),)


def test_an_unknown_key_of_the_project_comes_with_the_nearest_known_name(tmp_path):
    assert read(tmp_path, project="[tool.stepfast]\nleese = 1\n").unknown == (
        ("[tool.stepfast] leese", "STEPFAST_LEASE"),
    )


def test_names_of_parts_to_come_are_known(tmp_path):
    settings = read(tmp_path, {"STEPFAST_API_KEY": "x"}, project="[tool.stepfast]\nworkflow_runtime = 'compat'\n")
    assert settings.unknown == ()
    assert settings.without_effect == ("STEPFAST_API_KEY", "[tool.stepfast] workflow_runtime")


def test_an_app_tells_of_a_name_that_has_no_effect_yet(monkeypatch, caplog):
    monkeypatch.setenv("STEPFAST_SHADOW", "1")
    with caplog.at_level(logging.WARNING, "stepfast"):
        Stepfast()
    assert "setting_without_effect name=STEPFAST_SHADOW" in caplog.text


def test_an_app_tells_of_an_unknown_name(monkeypatch, caplog):
    monkeypatch.setenv("STEPFAST_TENNANT", "acme")
    with caplog.at_level(logging.WARNING, "stepfast"):
        Stepfast()
    assert "setting_unknown name=STEPFAST_TENNANT nearest=STEPFAST_TENANT" in caplog.text


def test_an_app_is_refused_a_bad_value(monkeypatch):
    monkeypatch.setenv("STEPFAST_POLL", "often")
    with pytest.raises(Invalid, match="STEPFAST_POLL"):
        Stepfast()


def test_an_app_takes_its_database_from_the_variable(monkeypatch):
    monkeypatch.setenv("STEPFAST_DATABASE_URL", "sqlite:///other.db")
    assert Stepfast().database == "sqlite:///other.db"


def test_a_database_that_was_given_beats_the_variable(monkeypatch):
    monkeypatch.setenv("STEPFAST_DATABASE_URL", "sqlite:///other.db")
    assert Stepfast("sqlite:///own.db").database == "sqlite:///own.db"
