"""`stepfast audit`: sealing, verifying and exporting the trail from the command line."""

from __future__ import annotations

import base64
import json
import sys

import pytest

from stepfast import Invalid
from stepfast.cli import audit
from tests.cli.invoking import invoke
from tests.cli.office import checkout
from tests.support.sql import tamper


@pytest.fixture(autouse=True)
def key(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", "1:" + base64.b64encode(bytes(range(32))).decode())
    monkeypatch.setenv("STEPFAST_SEAL_FILE", str(tmp_path / "seals.jsonl"))


@pytest.fixture
async def runs(client):
    """Two runs that wait for a worker."""
    return [(await client.start(checkout, f"order-{number}")).id for number in (1, 2)]


async def test_what_was_written_is_sealed_and_verified(office, runs):
    assert (await office.json("audit", "seal"))["sealed"] >= len(runs)
    report = await office.json("audit", "verify")
    assert (report["ok"], report["seals"], report["unsealed"], report["findings"]) == (True, 1, 0, [])


async def test_what_is_wrong_is_told_and_ends_with_an_exit_code(office, runs, database):
    await office("audit", "seal")
    await tamper(database, "update stepfast.event set actor = 'eve' where seq = 1")
    done = await office("audit", "verify")
    assert done.code == 1
    assert "changed" in done.out
    assert "2 things are wrong" in done.err


async def test_a_finding_has_its_code(office, runs, database):
    await office("audit", "seal")
    await tamper(database, "update stepfast.event set actor = 'eve' where seq = 1")
    assert "E-AUD-001  changed" in (await office("audit", "verify")).out
    report = json.loads((await office("audit", "verify", "-o", "json")).out)
    assert {(finding["code"], finding["fault"]) for finding in report["findings"]} == {("E-AUD-001", "changed")}


@pytest.mark.parametrize("place", ["absent/trail.jsonl", "."])
async def test_a_place_that_cannot_be_written_to_is_an_error_with_a_code(office, runs, tmp_path, place):
    done = await office("audit", "export", str(tmp_path / place))
    assert (done.code, done.err.startswith("E-STORE-001: The trail cannot be written to")) == (1, True)


def test_a_trail_is_not_written_where_there_is_no_stdout(monkeypatch):
    monkeypatch.setattr(sys, "__stdout__", None)
    with pytest.raises(Invalid, match="no stdout"), audit._written(audit.STDOUT):
        raise AssertionError("there is nothing to write to")


async def test_a_single_event_that_is_sealed_is_told_as_one(office, runs):
    await office("audit", "seal")
    await office("runs", "annotate", runs[0], "checked", "true")
    assert (await office("audit", "seal")).err == "1 event was sealed.\n"


async def test_a_single_thing_that_is_wrong_is_told_as_one(office, runs, database):
    await office("audit", "seal")
    await tamper(database, f"update stepfast.event set actor = 'eve' where seq = 1 and run_id = '{runs[0]}'")
    assert "1 thing is wrong." in (await office("audit", "verify")).err


async def test_an_exported_run_is_verified_without_the_database(office, runs, tmp_path):
    await office("audit", "seal")
    file = tmp_path / "trail.jsonl"
    assert (await office("audit", "export", "--run", runs[0], str(file))).code == 0
    done = await office("audit", "verify", "--file", str(file))
    assert (done.code, "is what was written" in done.err) == (0, True)
    file.write_text(file.read_text().replace("queued", "paused"))
    assert (await office("audit", "verify", "--file", str(file))).code == 1


async def test_copies_that_lie_elsewhere_are_compared(office, runs, tmp_path):
    await office("audit", "seal")
    other = tmp_path / "other.jsonl"
    other.write_text((tmp_path / "seals.jsonl").read_text().replace('"events": ', '"events": 1'))
    done = await office("audit", "verify", "--copies", str(other))
    assert (done.code, "copy_differs" in done.out) == (1, True)


async def test_copies_are_compared_also_for_whoever_gives_the_public_key_by_hand(office, runs, monkeypatch, tmp_path):
    pair = (await invoke("audit", "keygen", "-o", "json")).json
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", pair["private"])
    await office("audit", "seal")
    copies = tmp_path / "seals.jsonl"
    copies.write_text(copies.read_text().replace('"events": ', '"events": 1'))
    monkeypatch.delenv("STEPFAST_SEAL_KEYS")
    done = await office("audit", "verify", "--keys", pair["public"])
    assert (done.code, "copy_differs" in done.out) == (1, True)


async def test_whether_copies_were_compared_is_told(office, runs, monkeypatch):
    await office("audit", "seal")
    assert "no copies" not in (await office("audit", "verify")).err
    monkeypatch.delenv("STEPFAST_SEAL_FILE")
    assert "no copies" in (await office("audit", "verify")).err


async def test_copies_that_are_not_there_are_refused(office, runs, tmp_path):
    done = await office("audit", "verify", "--copies", str(tmp_path / "nothing.jsonl"))
    assert (done.code, "nothing.jsonl' which does not exist" in done.err.replace(",", "")) == (2, True)


async def test_an_auditor_needs_the_public_key_and_no_database(office, runs, monkeypatch, tmp_path):
    pair = (await invoke("audit", "keygen", "--name", "2026", "-o", "json")).json
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", pair["private"])
    file = tmp_path / "trail.jsonl"
    await office("audit", "seal")
    await office("audit", "export", "--whole", str(file))
    monkeypatch.delenv("STEPFAST_SEAL_KEYS")
    done = await invoke(
        "audit", "verify", "--file", str(file), "--keys", pair["public"], "--database", "sqlite:///no.db"
    )
    assert (done.code, "is what was written" in done.err) == (0, True)
    done = await invoke("audit", "verify", "--database", office._database, "--keys", pair["public"])
    assert (done.code, "is what was written" in done.err) == (0, True)


async def test_what_is_no_key_at_all_is_told_what_a_key_begins_with(office):
    done = await office("audit", "verify", "--keys", "nonsense")
    assert "a key begins neither with its name and kind" in done.err


@pytest.mark.parametrize("keys", ["1:" + base64.b64encode(bytes(32)).decode(), "a=ed25519:x", "nonsense"])
async def test_keys_of_the_command_line_are_public_ones_and_others_are_not_shown(office, keys):
    done = await office("audit", "verify", "--keys", keys)
    assert (done.code, "name=ed25519-public:base64" in done.err, keys in done.err) == (2, True, False)


async def test_a_file_has_no_copies_to_compare(office, tmp_path):
    done = await office("audit", "verify", "--file", str(tmp_path / "a"), "--copies", str(tmp_path / "b"))
    assert (done.code, "Leave one out" in done.err) == (2, True)


async def test_a_name_that_no_key_can_have_is_refused(office):
    done = await invoke("audit", "keygen", "--name", "a b")
    assert (done.code, "no name for a key" in done.err) == (2, True)


async def test_a_trail_that_is_none_is_told_of_by_its_line(office, tmp_path):
    (tmp_path / "trail.jsonl").write_bytes(b"\xff\xfe")
    done = await office("audit", "verify", "--file", str(tmp_path / "trail.jsonl"))
    assert (done.code, "Line 1 of the trail" in done.err, "Traceback" in done.err) == (2, True, False)


async def test_without_a_key_the_command_says_what_to_set(office, runs, monkeypatch):
    monkeypatch.delenv("STEPFAST_SEAL_KEYS")
    done = await office("audit", "verify")
    assert (done.code, "STEPFAST_SEAL_KEYS" in done.err) == (2, True)


async def test_events_are_listed_by_who_did_what(office, runs):
    await office("runs", "cancel", runs[0], "--actor", "ann", "--reason", "twice")
    (found,) = (await office.json("audit", "list", "--by", "ann", "--type", "cancelled"))["items"]
    assert (found["run_id"], found["actor"]) == (runs[0], "ann")
    assert await office.json("audit", "show", str(found["position"])) == found


async def test_a_list_of_events_goes_on_at_its_cursor(office, runs):
    first = await office.json("audit", "list", "--limit", "1")
    rest = await office.json("audit", "list", "--cursor", first["next_cursor"])
    assert [event["run_id"] for event in first["items"] + rest["items"]] == runs[::-1]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("list", "--since", "monday"), 2, "'monday' is no moment"),
        (("list", "--cursor", "x"), 2, "no cursor"),
        (("show", "999999"), 3, "no event at position 999999"),
        (("show", "0"), 2, "0 is not in the range"),
    ],
)
async def test_events_that_cannot_be_asked_for_are_refused(office, runs, words, code, told):
    done = await office("audit", *words)
    assert (done.code, told in done.err) == (code, True), done.err


async def test_an_exported_trail_is_verified_as_it_comes_by_stdin(office, runs):
    await office("audit", "seal")
    trail = (await office("audit", "export")).out
    done = await office("audit", "verify", "--file", "-", stdin=trail)
    assert (done.code, "is what was written" in done.err) == (0, True)
    assert (await office("audit", "verify", "--file", "-", stdin=trail.replace("queued", "paused"))).code == 1
    assert (await office("audit", "verify", "--file", "-", stdin="")).code == 2


async def test_a_moment_that_no_calendar_has_keeps_no_list_from_being_shown(office, runs, database):
    await tamper(database, f"update stepfast.event set at = {2**62} where run_id = '{runs[0]}'")
    done = await office("audit", "list")
    assert (done.code, str(2**62) in done.out) == (0, True)
