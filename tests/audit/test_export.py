"""The trail as a file: it proves itself without the database, whole or in part."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepfast import Invalid
from stepfast.kernel import seals
from stepfast.kernel.auditing import Fault
from stepfast.signing import KeyedSigner
from stepfast.tokens import fresh_keys
from stepfast.trail_files import verify_lines
from tests.audit.test_verify import KEYS, sealing
from tests.support.sql import fetch, tamper
from tests.support.workflows import say

SIGNER = KeyedSigner(KEYS)


@pytest.fixture
async def opened(database):
    """Two runs in one seal, one of another tenant, and a run behind it."""
    async with sealing(database) as opened:
        for words, tenant in (("one", "default"), ("two", "default"), ("three", "other")):
            await opened.run(say, words, tenant=tenant)
        await opened.app.audit.seal()
        await opened.run(say, "four")
        yield opened


async def lines(opened, **chosen) -> list[str]:
    return [line async for line in opened.app.audit.export(**chosen)]


def of_runs(written: list[str]) -> list[dict[str, Any]]:
    """What the leaves and events of a file say."""
    return [told for told in map(json.loads, written) if told["kind"] in ("leaf", "event")]


def faults(written: list[str], signer=SIGNER) -> list[str]:
    return [finding.fault for finding in verify_lines(written, signer).findings]


async def test_a_file_of_the_whole_trail_proves_itself(opened):
    report = verify_lines(await lines(opened), SIGNER)
    assert report == await opened.app.audit.verify()
    assert (report.is_sound, report.seals, report.unsealed > 0) == (True, 1, True)


async def test_a_file_of_one_tenant_has_nothing_of_the_others_and_proves_itself(opened):
    written = await lines(opened, tenant="other")
    assert faults(written) == []
    assert {told["tenant"] for told in of_runs(written)} == {"other"}


async def test_the_tree_of_a_seal_is_built_once_however_many_of_its_leaves_are_wanted(opened, monkeypatch):
    for words in range(30):
        await opened.run(say, str(words))
    await opened.app.audit.seal()
    leaves = sum(seal.body.leaves for seal in await opened.app.parts.store.seals(0, 100))
    built, node = list[bytes](), seals._node

    def counted(left: bytes, right: bytes) -> bytes:
        built.append(left)
        return node(left, right)

    monkeypatch.setattr(seals, "_node", counted)
    written = await lines(opened, tenant="default")
    assert len(built) < leaves
    assert faults(written) == []


async def test_a_file_of_one_run_proves_itself(opened):
    (first, *_) = [view.run_id for view in await opened.app.runs(tenant="other")]
    written = await lines(opened, run_id=first)
    assert faults(written) == []
    assert {told["run_id"] for told in of_runs(written)} == {first}


def changed(written: list[str], kind: str, **other) -> list[str]:
    """The same lines, but for something in the first of a kind."""
    index = next(number for number, line in enumerate(written) if f'"kind":"{kind}"' in line)
    return [*written[:index], json.dumps({**json.loads(written[index]), **other}), *written[index + 1 :]]


CHANGES = {
    "an event": ("event", {"actor": "eve"}, Fault.CHANGED),
    "a leaf": ("leaf", {"digest": "aa"}, Fault.SEAL_CHANGED),
    "a seal": ("seal", {"events": 0}, Fault.SEAL_UNSIGNED),
}


@pytest.mark.parametrize(("kind", "other", "fault"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("chosen", [{}, {"tenant": "other"}], ids=["whole", "part"])
async def test_whatever_is_changed_in_a_file_is_found(opened, chosen, kind, other, fault):
    assert fault in faults(changed(await lines(opened, **chosen), kind, **other))


async def test_an_event_that_is_left_out_of_a_file_is_found(opened):
    written = await lines(opened)
    index = next(number for number, line in enumerate(written) if '"kind":"event"' in line)
    assert faults([*written[:index], *written[index + 1 :]]) == [Fault.REMOVED]


async def test_another_key_proves_nothing(opened):
    assert faults(await lines(opened), KeyedSigner(fresh_keys())) == [Fault.SEAL_UNSIGNED]


@pytest.mark.parametrize("line", ["", "{}", "[]", "{", '{"kind": "leaf"}', '{"kind": "seal", "number": 1}'])
def test_a_line_that_is_none_is_refused_by_its_number(line):
    with pytest.raises(Invalid, match="Line 1 of the trail"):
        verify_lines([line], SIGNER)


async def test_what_was_left_out_of_the_file_of_one_run_is_found_by_the_numbers_of_its_events(opened):
    run = opened.app.get((await opened.app.runs(tenant="other"))[0].run_id, tenant="other")
    await run.rerun()
    await opened.app.audit.seal()
    written = await lines(opened, run_id=run.id)
    assert faults(written) == []
    second = max(number for number, line in enumerate(written) if '"kind":"seal"' in line)
    less = [line for number, line in enumerate(written) if number >= second or '"kind":"seal"' in line]
    (finding,) = verify_lines(less, SIGNER).findings
    assert (finding.fault, finding.run_id, "are not in the file" in finding.message) == (Fault.REMOVED, run.id, True)


async def test_what_is_not_sealed_yet_is_read_piece_by_piece(opened, monkeypatch):
    await opened.run(say, "not sealed yet")
    lines = [line async for line in opened.app.audit.export()]
    monkeypatch.setattr("stepfast.trail_files.EVENTS_AT_ONCE", 2)
    report = opened.app.audit.verify_lines(lines)
    assert (report.findings, report.unsealed > 2) == ((), True)


async def test_an_event_is_taken_along_however_high_somebody_has_put_it(opened, database):
    await opened.run(say, "not sealed yet")
    ((run_id,),) = await fetch(database, "select run_id from stepfast.event order by position desc limit 1")
    highest = 2**63 - 1
    await tamper(database, f"update stepfast.event set position = {highest} where run_id = '{run_id}' and seq = 1")
    assert highest in [told["position"] for told in of_runs(await lines(opened)) if told["kind"] == "event"]
