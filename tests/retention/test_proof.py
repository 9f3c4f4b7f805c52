"""What went by a policy is provable as such, and nothing else passes for it."""

from __future__ import annotations

import json

import pytest

from stepfast import Invalid
from stepfast.kernel.auditing import Fault
from stepfast.kernel.ids import RunId
from stepfast.kernel.retention import PruneBatch, signed_text
from stepfast.kernel.seals import sealed
from stepfast.signing import KeyedSigner, read_seal_keys
from stepfast.trail_files import verify_lines
from tests.retention.conftest import KEYS
from tests.retention.test_pruning import ended, left, prune
from tests.retention.workflows import tell
from tests.support.sql import execute, fetch, tamper

OTHER_KEYS = read_seal_keys("1:" + "b3RoZXJz" * 8)


@pytest.fixture
async def runs(sealing) -> list[str]:
    """Two runs in a seal, one old and one young, and a policy by which the old one goes."""
    await sealing.app.retention.set("10d")
    old = await ended(sealing)
    sealing.clock.advance("9d")
    young = await ended(sealing)
    await sealing.app.audit.seal()
    sealing.clock.advance("2d")
    return [old, young]


async def faults(opened) -> list[str]:
    return [finding.fault for finding in (await opened.app.audit.verify()).findings]


async def test_a_trail_of_which_runs_were_pruned_is_sound(sealing, runs):
    await prune(sealing)
    report = await sealing.app.audit.verify()
    assert (report.findings, report.pruned, await left(sealing)) == ((), 1, {runs[1]})
    await sealing.app.audit.seal()
    assert (await sealing.app.audit.verify()).is_sound


async def test_a_family_over_several_seals_is_proved_gone(sealing):
    await sealing.app.retention.set("1d")
    run = await sealing.start(tell, ["one", "two"])
    await sealing.app.audit.seal()
    await sealing.run_until_idle()
    await sealing.app.audit.seal()
    sealing.clock.advance("2d")
    assert (await prune(sealing)).runs == 3
    report = await sealing.app.audit.verify()
    assert verify_lines(await lines(sealing), KeyedSigner(KEYS)).pruned == 3
    # Three runs, of which one has a part in each seal.
    assert (report.findings, report.pruned, run.id in await left(sealing)) == ((), 3, False)


async def test_a_run_that_is_not_sealed_yet_stays(sealing):
    await sealing.app.retention.set("1d")
    await ended(sealing)
    sealing.clock.advance("2d")
    assert (await prune(sealing)).held == {"unsealed": 1}
    await sealing.app.audit.seal()
    assert (await prune(sealing)).runs == 1


@pytest.mark.parametrize("dry_run", [False, True])
async def test_who_cannot_sign_prunes_nothing_of_a_sealed_trail_and_a_dry_run_says_so(sealing, runs, dry_run):
    sealing.app.signer = None
    with pytest.raises(Invalid, match="STEPFAST_SEAL_KEYS"):
        await prune(sealing, dry_run=dry_run)
    assert await left(sealing) == set(runs)


async def test_runs_that_went_before_there_was_a_seal_are_missed_by_none(sealing, monkeypatch):
    # On PostgreSQL what went has left a hole that nobody writes to any more; time stands still here.
    monkeypatch.setattr("stepfast.engine.sealing.PAUSE_MS", 0)
    signer, sealing.app.signer = sealing.app.signer, None
    await sealing.app.retention.set("1d")
    await ended(sealing)
    sealing.clock.advance("2d")
    assert (await prune(sealing)).runs == 1
    sealing.app.signer = signer
    await ended(sealing)
    await sealing.app.audit.seal()
    assert (await sealing.app.audit.verify()).is_sound


async def test_the_first_seal_has_nothing_that_went_since_it_was_read(sealing):
    """Another process without keys prunes between the reading of the first seal and its writing."""
    await sealing.app.retention.set("1d")
    await ended(sealing)
    sealing.clock.advance("2d")
    store = sealing.app.parts.store
    page = await store.trail(0, 100)
    seal, leaves = sealed(None, page.events, page.reached, sealing.clock.now(), KeyedSigner(KEYS))
    sealing.app.signer = None
    assert (await prune(sealing)).runs == 1
    assert not await store.put_seal(seal, leaves)


# Somebody with the owner's rights deletes a run and says that it was pruned.


async def delete_hostile(opened, database, run_id: str, told: str | None, last_seq: int | None = None) -> None:
    """Delete a run, and dress that up as pruning."""
    ((last,),) = await fetch(database, f"select max(seq) from stepfast.event where run_id = '{run_id}'")
    for table in ("event", "run", "outcome", "step"):
        await tamper(database, f"delete from stepfast.{table} where run_id = '{run_id}'")
    batch = "00000000-0000-7000-8000-00000000000b"
    await execute(
        database,
        "insert into stepfast.pruned (run_id, tenant, last_seq, batch_id, pruned_at) "
        f"values ('{run_id}', 'default', {last if last_seq is None else last_seq}, '{batch}', 1)",
    )
    if told is not None:
        await execute(
            database,
            "insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, data) "
            f"values ('{batch}', 1, 'default', 1, 'pruned', 1, 0, '{told}')",
        )


def told_of(run_id: str, last_seq: int, signer: KeyedSigner | None = None) -> str:
    batch_id = RunId("00000000-0000-7000-8000-00000000000b")
    return PruneBatch(batch_id, "default", None, 1, ((RunId(run_id), last_seq),), True).told(signer)


FORGERIES = {
    "nothing tells of it": lambda run_id, last: None,
    "it is not signed": lambda run_id, last: told_of(run_id, last),
    "signed with another key": lambda run_id, last: told_of(run_id, last, KeyedSigner(OTHER_KEYS)),
    "it cannot be read": lambda run_id, last: "{",
    "it has no bottom": lambda run_id, last: "[" * 100_000,
    "it names no number": lambda run_id, last: f'{{"runs": [["{run_id}", Infinity]]}}',
    "it is of another form": lambda run_id, last: '{"runs": 7, "key": "1", "signature": ""}',
    "a signature of another run": lambda run_id, last: told_of(run_id[::-1], last, KeyedSigner(KEYS)),
    "a key that nobody knows": lambda run_id, last: told_of(run_id, last, Anybody()),
}


class Anybody(KeyedSigner):
    def __init__(self) -> None:
        super().__init__(KEYS)

    def sign(self, text: bytes) -> tuple[str, str]:
        return "77", "aa"


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
async def test_a_deletion_that_is_dressed_up_as_pruning_is_found(sealing, runs, database, forge):
    last = (await sealing.events(runs[1]))[-1].seq
    await delete_hostile(sealing, database, runs[1], forge(runs[1], last))
    (finding,) = (await sealing.app.audit.verify()).findings
    assert (finding.fault, finding.run_id, finding.seal) == (Fault.PRUNED_UNPROVEN, runs[1], 1)


async def test_a_deletion_without_any_excuse_is_a_removal(sealing, runs, database):
    await tamper(database, f"delete from stepfast.event where run_id = '{runs[1]}'")
    assert Fault.REMOVED in await faults(sealing)


async def test_a_signature_for_fewer_events_proves_nothing(sealing, runs, database):
    told = told_of(runs[1], 1, KeyedSigner(KEYS))
    await delete_hostile(sealing, database, runs[1], told, last_seq=1)
    assert await faults(sealing) == [Fault.PRUNED_UNPROVEN]


async def test_a_pruned_run_of_which_events_are_there_again_is_found(sealing, runs, database):
    await prune(sealing)
    await execute(
        database,
        "insert into stepfast.event (run_id, seq, tenant, generation, type, at, token) "
        f"values ('{runs[0]}', 1, 'default', 1, 'queued', 1, 0)",
    )
    assert Fault.PRUNED_PARTLY in await faults(sealing)


async def test_a_proof_that_was_changed_proves_nothing_any_more(sealing, runs, database):
    await prune(sealing)
    await tamper(database, "update stepfast.event set data = replace(data, '86400', '1') where type = 'pruned'")
    await tamper(database, "update stepfast.event set tenant = 'other' where type = 'pruned'")
    assert Fault.PRUNED_UNPROVEN in await faults(sealing)


async def test_the_broken_twin_that_believes_any_event_lets_a_deletion_pass(sealing, runs, database, monkeypatch):
    monkeypatch.setattr(KeyedSigner, "proves", lambda self, text, key, signature: True)
    last = (await sealing.events(runs[1]))[-1].seq
    await delete_hostile(sealing, database, runs[1], told_of(runs[1], last, Anybody()))
    assert await faults(sealing) == []


# Taken along as a file.


async def lines(opened, **chosen) -> list[str]:
    return [line async for line in opened.app.audit.export(**chosen)]


@pytest.mark.parametrize("chosen", [{}, {"tenant": "default"}], ids=["whole", "part"])
async def test_a_file_of_a_pruned_trail_proves_itself(sealing, runs, chosen):
    await prune(sealing)
    report = verify_lines(await lines(sealing, **chosen), KeyedSigner(KEYS))
    assert (report.findings, report.pruned) == ((), 1)


async def test_a_file_whose_proof_was_left_out_or_forged_is_found(sealing, runs):
    await prune(sealing)
    written = await lines(sealing)
    (proof,) = [line for line in written if json.loads(line)["kind"] == "pruned"]
    without = [line for line in written if line != proof]
    assert [each.fault for each in verify_lines(without, KeyedSigner(KEYS)).findings] == [Fault.REMOVED]
    forged = json.loads(proof)
    forged["tenant"] = "other"
    changed = [json.dumps(forged) if line == proof else line for line in written]
    assert [each.fault for each in verify_lines(changed, KeyedSigner(KEYS)).findings] == [Fault.PRUNED_UNPROVEN]


def test_what_is_signed_for_pruning_is_never_the_text_of_a_seal():
    assert signed_text("id", "tenant", {}).startswith(b'["pruned"')


async def test_the_engines_own_role_needs_no_right_to_delete(migrated_postgres_url):
    """The function that deletes does so with its owner's rights."""
    definer = "select prosecdef, proconfig[1] from pg_proc where proname = 'prune_runs'"
    assert await fetch(migrated_postgres_url, definer) == [(True, "search_path=pg_catalog, pg_temp")]


# Somebody who has no key has the workers, who do, let runs go by a policy of his own.

SLIPPED_IN = "insert into stepfast.retention (tenant, workflow, keep_ms, changed_at) values ('', 'say', 1, 1)"


@pytest.fixture
async def let_go(sealing, runs, database):
    """Runs that went by a policy which was written past the function that tells of it."""
    await execute(database, SLIPPED_IN)
    assert (await prune(sealing)).runs == 2
    await sealing.app.audit.seal()
    return sealing


async def test_runs_that_went_by_a_policy_that_nobody_has_told_of_are_found(let_go):
    assert await faults(let_go) == [Fault.PRUNED_UNPROVEN]


async def test_a_file_of_the_whole_trail_tells_that_too(let_go):
    lines = [line async for line in let_go.app.audit.export()]
    findings = let_go.app.audit.verify_lines(lines).findings
    assert [finding.fault for finding in findings] == [Fault.PRUNED_UNPROVEN]


async def test_a_file_of_one_tenant_knows_of_no_policies_for_all_and_is_sound(sealing, runs):
    await prune(sealing)
    await sealing.app.audit.seal()
    lines = [line async for line in sealing.app.audit.export(tenant="default")]
    assert sealing.app.audit.verify_lines(lines).is_sound


async def test_the_broken_twin_that_does_not_ask_who_set_a_policy_finds_nothing(let_go, monkeypatch):
    monkeypatch.setattr("stepfast.verifying.check_policies", lambda *given: ())
    assert await faults(let_go) == []
