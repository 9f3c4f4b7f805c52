"""Resume tokens: all that a person needs to answer, once, in time, and for nothing else."""

from __future__ import annotations

import hashlib
import logging
import pickle
import stat
import traceback
from pathlib import Path
from typing import Any

import pytest

import stepfast
from stepfast import Invalid
from stepfast.kernel.blobs import BlobFilter
from stepfast.kernel.errors import (
    StepfastError,
    StoreUnusable,
    TokenExpired,
    TokenForeign,
    TokenUsed,
    TokenWrong,
    VerdictNotAllowed,
)
from stepfast.kernel.ids import RunId
from stepfast.kernel.review_views import NO_RUN
from stepfast.kernel.reviews import Owner, ReviewId, parse_review_id
from stepfast.sync import Stepfast as BlockingStepfast
from stepfast.testing import engine
from stepfast.tokens import PREFIX, KeyFile, Secret, ShownToken, fresh_keys, new_token, read_keys, shown_token
from tests.stores.postgres import asking
from tests.support.apps import app_on, migrated
from tests.support.asking import KEYS, Process, events_of, review_of, store_of
from tests.support.workflows import say

PACKAGE = str(Path(stepfast.__file__).parent)
NOWHERE = ReviewId(RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22"), 1)


def known(token: str) -> ShownToken:
    found = shown_token(token)
    assert found is not None
    return found


@pytest.fixture
async def app(database, token_keys):
    async with app_on(database, [say], worker=False) as app:
        yield app


async def outcomes(app, review_id: str) -> list[tuple[str, str | None]]:
    """How each token that was shown was met, and who showed it, by the run's history."""
    return [(told["outcome"], actor) for told, actor in await events_of(app, review_id, "resume_submitted")]


async def test_a_token_is_all_that_is_needed(app):
    review_id = await review_of(app, owner=Owner(None, "legal"))
    token = await app.reviews.issue_token(review_id, actor="ann")
    await app.reviews.resume(token, "correct", {"total": 13}, note="one more")
    found = await app.reviews.get(review_id)
    assert (found.verdict, found.actor, found.answers[0].value) == ("correct", "ann", {"total": 13})
    assert await outcomes(app, review_id) == [("accepted", "ann")]


async def test_a_token_works_once(app):
    review_id = await review_of(app, quorum=2)
    token = await app.reviews.issue_token(review_id, actor="ann")
    await app.reviews.resume(token, "continue")
    with pytest.raises(TokenUsed):
        await app.reviews.resume(token, "continue")
    assert await outcomes(app, review_id) == [("accepted", "ann"), ("E-REV-003", "ann")]


async def test_of_several_people_with_a_token_the_first_decides(app):
    review_id = await review_of(app)
    ann, bob = [await app.reviews.issue_token(review_id, actor=actor) for actor in ("ann", "bob")]
    await app.reviews.resume(bob, "reject")
    with pytest.raises(TokenUsed, match="decided already"):
        await app.reviews.resume(ann, "continue")
    assert (await app.reviews.get(review_id)).verdict == "reject"


async def test_a_token_names_what_it_is_for(app):
    review_id = await review_of(app, start={"tenant": "acme", "subject": "case-7"})
    token = await app.reviews.issue_token(review_id, actor="ann")
    await app.reviews.resume(token, "continue", actor="ann", tenant="acme", subject="case-7")


@pytest.mark.parametrize("claim", [{"actor": "bob"}, {"tenant": "other"}, {"subject": "case-8"}])
async def test_a_token_for_somebody_or_something_else_is_foreign(app, claim):
    review_id = await review_of(app, start={"tenant": "acme", "subject": "case-7"})
    token = await app.reviews.issue_token(review_id, actor="ann")
    with pytest.raises(TokenForeign):
        await app.reviews.resume(token, "continue", **claim)
    assert await outcomes(app, review_id) == [("E-REV-004", claim.get("actor", "ann"))]
    await app.reviews.resume(token, "continue")


def changed_bits(token: str) -> list[str]:
    """The token with one bit of each of its characters changed."""
    return [token[:at] + chr(ord(token[at]) ^ 1) + token[at + 1 :] for at in range(len(token))]


async def test_a_token_with_any_bit_changed_is_wrong(app):
    review_id = await review_of(app)
    token = await app.reviews.issue_token(review_id, actor="ann")
    for changed in changed_bits(token):
        with pytest.raises(TokenWrong):
            await app.reviews.resume(changed, "continue")
    assert (await app.reviews.get(review_id)).state == "open"
    await app.reviews.resume(token, "continue")


async def test_whoever_shows_a_wrong_token_learns_nothing_of_the_keys_of_its_tenant(app):
    review_id = await review_of(app, start={"tenant": "acme"}, quorum=2)
    token = await app.reviews.issue_token(review_id, actor="ann")
    await app.reviews.decide(review_id, "continue", actor="bob", key="k")
    forged, _ = new_token(parse_review_id(review_id), fresh_keys()[0])
    with pytest.raises(TokenWrong):
        await app.reviews.resume(forged, "continue", key="k")
    with pytest.raises(TokenForeign):
        await app.reviews.resume(token, "continue", key="k", tenant="other")
    assert await outcomes(app, review_id) == [("E-REV-001", None), ("E-REV-004", "ann")]


async def test_a_token_with_a_key_counts_once_and_is_answered_twice(app):
    review_id = await review_of(app)
    token = await app.reviews.issue_token(review_id, actor="ann")
    answers = [await app.reviews.resume(token, "continue", key="k") for _ in range(2)]
    assert [answer.repeated for answer in answers] == [False, True]


@pytest.mark.parametrize(
    "wrong", ["", "x", PREFIX, "sfr_" + "A" * 71, "sfr_" + "A" * 70, "\ud800", "é" * 75, "x" * 10**6, None, 7]
)
async def test_what_is_no_token_is_wrong_and_told_of_beside_all_runs(app, wrong):
    await review_of(app)
    with pytest.raises(TokenWrong):
        await app.reviews.resume(wrong, "continue", actor="eve", tenant="acme")
    [event] = await store_of(app).events(NO_RUN)
    assert (event.seq, event.tenant, event.actor, event.type) == (1, "acme", "eve", "resume_submitted")
    assert event.data == '{"outcome": "E-REV-001"}'


@pytest.mark.parametrize("cut", [1, 10, 40, 74])
async def test_a_token_that_is_cut_short_is_wrong(app, cut):
    token = await app.reviews.issue_token(await review_of(app), actor="ann")
    with pytest.raises(TokenWrong):
        await app.reviews.resume(token[:-cut], "continue")


async def test_a_token_of_a_run_that_is_not_there_is_wrong(app, tmp_path):
    async with app_on(f"sqlite:///{tmp_path}/other.db", [say], worker=False) as elsewhere:
        token = await elsewhere.reviews.issue_token(await review_of(elsewhere), actor="ann")
    with pytest.raises(TokenWrong):
        await app.reviews.resume(token, "continue")
    assert len(await store_of(app).events(NO_RUN)) == 1


async def test_a_token_of_another_wait_of_the_same_run_is_wrong(app):
    review_id = await review_of(app)
    run_id = review_id.split(".")[0]
    keys = read_keys(KEYS[1])
    token, _ = new_token(ReviewId(RunId(run_id), 9), keys[0])
    with pytest.raises(TokenWrong):
        await app.reviews.resume(token, "continue")
    assert await outcomes(app, review_id) == [("E-REV-001", None)]


@pytest.mark.parametrize(("action", "error"), [("cancel", TokenUsed), ("rerun", TokenForeign)])
async def test_a_token_works_no_more_when_its_run_is_over_or_begins_anew(app, action, error):
    review_id = await review_of(app)
    token = await app.reviews.issue_token(review_id, actor="ann")
    run = app.get(review_id.split(".")[0])
    await run.cancel()
    if action == "rerun":
        await run.rerun()
    with pytest.raises(error):
        await app.reviews.resume(token, "continue")
    assert (await app.reviews.get(review_id)).state == "withdrawn"


async def test_a_verdict_that_is_not_allowed_leaves_the_token_unused(app):
    review_id = await review_of(app, schema='{"type": "object"}')
    token = await app.reviews.issue_token(review_id, actor="ann")
    for verdict, value, error in [
        ("perhaps", None, VerdictNotAllowed),
        ("correct", 7, Invalid),
        ("reject", 7, Invalid),
    ]:
        with pytest.raises(error):
            await app.reviews.resume(token, verdict, value)
    assert await outcomes(app, review_id) == [("E-REV-005", "ann"), ("E-VAL-001", "ann"), ("E-VAL-001", "ann")]
    await app.reviews.resume(token, "continue")


async def test_a_wrong_token_does_not_tell_what_would_fit(app):
    review_id = await review_of(app, schema='{"type": "object"}')
    token = await app.reviews.issue_token(review_id, actor="ann")
    with pytest.raises(TokenWrong):
        await app.reviews.resume(changed_bits(token)[-2], "correct", 7)


async def test_a_wrong_token_leaves_no_large_value_behind(app):
    review_id = await review_of(app)
    token = await app.reviews.issue_token(review_id, actor="ann")
    with pytest.raises(TokenWrong):
        await app.reviews.resume(changed_bits(token)[-2], "correct", "x" * 10**6)
    assert await store_of(app).list_blobs(BlobFilter()) == []


async def test_a_token_expires(database):
    async with engine(database=database, workflows=[say]) as desk:
        review_id = await review_of(desk.app)
        default, short = [
            await desk.app.reviews.issue_token(review_id, actor=actor, expires=expires)
            for actor, expires in (("ann", None), ("bob", "1h"))
        ]
        desk.clock.advance("1h")
        with pytest.raises(TokenExpired):
            await desk.app.reviews.resume(short, "continue")
        desk.clock.advance("22h")
        await desk.app.reviews.resume(default, "continue")


async def test_the_setting_says_how_long_a_token_works(database, token_keys, monkeypatch):
    monkeypatch.setenv("RESUME_TOKEN_TTL_HOURS", "2")
    async with app_on(database, [say], worker=False) as app:
        review_id = await review_of(app)
        await app.reviews.issue_token(review_id, actor="ann")
        [token] = (await app.reviews.get(review_id)).tokens
        assert token.expires_at - token.issued_at == 2 * 3_600_000


@pytest.mark.parametrize("expires", [0, -1, "-1h", "soon", "20000d"])
async def test_a_token_is_not_issued_for_a_time_that_makes_no_sense(app, expires):
    review_id = await review_of(app)
    with pytest.raises(Invalid):
        await app.reviews.issue_token(review_id, actor="ann", expires=expires)
    assert (await app.reviews.get(review_id)).tokens == ()


@pytest.mark.parametrize("actor", [None, "", "\0", 7])
async def test_a_token_is_for_somebody(app, actor):
    with pytest.raises(Invalid, match="actor"):
        await app.reviews.issue_token(await review_of(app), actor=actor)


async def test_no_token_is_issued_for_a_review_that_is_over(app):
    review_id = await review_of(app)
    await app.reviews.decide(review_id, "continue")
    with pytest.raises(StepfastError, match="is decided"):
        await app.reviews.issue_token(review_id, actor="ann")


async def test_a_token_shown_while_the_run_is_held_counts_as_well(app):
    review_id = await review_of(app, is_parked=False)
    token = await app.reviews.issue_token(review_id, actor="ann")
    await app.reviews.resume(token, "continue")
    assert (await app.reviews.get(review_id)).state == "decided"


async def test_keys_are_changed_while_runs_wait(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
    async with app_on(database, [say], worker=False) as app:
        review_id = await review_of(app, quorum=2)
        old = await app.reviews.issue_token(review_id, actor="ann")
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", f"{KEYS[2]},{KEYS[1]}")
    async with app_on(database, [say], worker=False) as app:
        new = await app.reviews.issue_token(review_id, actor="bob")
        assert [known(token).key_number for token in (old, new)] == [1, 2]
        await app.reviews.resume(old, "continue")
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
    async with app_on(database, [say], worker=False) as app:
        with pytest.raises(TokenWrong):
            await app.reviews.resume(new, "continue")
        assert (await outcomes(app, review_id))[-1] == ("E-REV-001", None)


async def works_with_another_key(database, monkeypatch) -> bool:
    """Whether a token that was made with one key is taken where another has its number."""
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
    async with app_on(database, [say], worker=False) as app:
        review_id = await review_of(app)
        token = await app.reviews.issue_token(review_id, actor="ann")
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[2].replace("2:", "1:"))
    async with app_on(database, [say], worker=False) as app:
        try:
            await app.reviews.resume(token, "continue")
        except TokenWrong:
            return False
        return True


async def test_the_same_number_with_another_key_verifies_nothing(database, monkeypatch):
    assert not await works_with_another_key(database, monkeypatch)


async def test_the_broken_twin_that_hashes_without_the_key_takes_it(database, monkeypatch):
    monkeypatch.setattr(Secret, "hash_of", lambda key, text: hashlib.sha256(text._content).hexdigest())
    assert await works_with_another_key(database, monkeypatch)


async def test_on_postgresql_a_token_needs_a_key_that_somebody_has_set(postgres_url):
    await migrated(postgres_url)
    async with app_on(postgres_url, [say], worker=False) as app:
        review_id = await review_of(app)
        with pytest.raises(Invalid, match=r"STEPFAST_TOKEN_KEYS.*python -c"):
            await app.reviews.issue_token(review_id, actor="ann")
        with pytest.raises(Invalid, match="STEPFAST_TOKEN_KEYS"):
            await app.reviews.resume("sfr_" + "A" * 71, "continue")


async def test_on_sqlite_the_key_is_in_a_file_beside_the_database(tmp_path):
    url = f"sqlite:///{tmp_path}/app.db"
    async with app_on(url, [say], worker=False) as app:
        token = await app.reviews.issue_token(await review_of(app), actor="ann")
    file = tmp_path / "app.db.token-key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    async with app_on(url, [say], worker=False) as app:
        await app.reviews.resume(token, "continue")


async def test_on_sqlite_a_token_without_the_key_file_is_wrong_and_makes_none(tmp_path):
    url = f"sqlite:///{tmp_path}/app.db"
    async with app_on(url, [say], worker=False) as app:
        token = await app.reviews.issue_token(await review_of(app), actor="ann")
        (tmp_path / "app.db.token-key").unlink()
        with pytest.raises(TokenWrong):
            await app.reviews.resume(token, "continue")
    assert not (tmp_path / "app.db.token-key").exists()


@pytest.mark.parametrize("content", [b"", b"1:", b"1:AAAA", b"\xff\xfe", b"nonsense"])
def test_a_key_file_that_is_damaged_is_refused_and_left_alone(tmp_path, content):
    file = tmp_path / "app.db.token-key"
    file.write_bytes(content)
    with pytest.raises(StoreUnusable, match=r"app\.db\.token-key"):
        KeyFile(file).for_new()
    assert file.read_bytes() == content


MAKES_A_KEY = """
import sys
from pathlib import Path
from stepfast.tokens import KeyFile, Secret
print("ready", flush=True)
sys.stdin.readline()
keys = KeyFile(Path(sys.argv[1])).for_new()
print(keys[0].secret.hash_of(Secret("same")), flush=True)
"""


def test_processes_that_make_a_key_at_once_have_the_same(tmp_path):
    processes = [Process("-c", MAKES_A_KEY, str(tmp_path / "key")) for _ in range(4)]
    for process in processes:
        assert process.line() == "ready"
    for process in processes:
        process.tell("go")
    assert len({process.rest() for process in processes}) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"]


async def test_only_a_keyed_hash_is_stored(app):
    review_id = await review_of(app)
    token = await app.reviews.issue_token(review_id, actor="ann")
    whole: Any = await store_of(app).review(None, parse_review_id(review_id))
    [stored] = whole.tokens
    assert stored.hash == read_keys(KEYS[1]).hash_of(known(token))
    assert stored.hash != hashlib.sha256(token.encode()).hexdigest()


def test_a_token_has_256_random_bits_of_its_own():
    keys = fresh_keys()
    tokens = {new_token(NOWHERE, keys[0])[0] for _ in range(100)}
    assert len({token[-43:] for token in tokens}) == 100


@pytest.mark.parametrize(
    "text",
    [
        "", "1", "1:", ":AAAA", "0:" + "A" * 44, "256:" + "A" * 44, "x:" + "A" * 44, "1:short", "1:" + "!" * 44,
        f"{KEYS[1]},{KEYS[1]}", f"{KEYS[1]},", "²:" + "A" * 44,
    ],
)  # fmt: skip
def test_keys_that_make_no_sense_are_refused_without_being_shown(text, monkeypatch, tmp_path):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", text or " ")
    with pytest.raises(Invalid, match="STEPFAST_TOKEN_KEYS") as caught:
        app_on(f"sqlite:///{tmp_path}/app.db", [say])
    assert len(text) < 5 or text not in str(caught.value)
    assert all(part.partition(":")[2] not in str(caught.value) for part in text.split(",") if len(part) > 10)


def everything_said(error: BaseException) -> str:
    """An error as a log, a debugger and a reporter of crashes would show it, with the variables of our frames."""
    whole = traceback.TracebackException.from_exception(error, capture_locals=True)
    ours = [frame.locals for frame in whole.stack if frame.filename.startswith(PACKAGE)]
    return f"{error} {error!r} {error.args} {traceback.format_exception(error)} {ours}"


async def test_a_token_that_could_not_be_issued_is_not_in_the_traceback(app, monkeypatch):
    review_id = await review_of(app)
    made = []

    def remembered(*given: Any) -> tuple[str, str]:
        made.append(new_token(*given))
        return made[-1]

    monkeypatch.setattr("stepfast.reviews.new_token", remembered)
    await app.reviews.decide(review_id, "continue")
    with pytest.raises(StepfastError, match="is decided") as caught:
        await app.reviews.issue_token(review_id, actor="ann")
    [(token, _)] = made
    assert token not in everything_said(caught.value)


async def test_a_token_is_nowhere_but_with_its_bearer(app, database, tmp_path, caplog):
    """Put through every door, accepted and refused; then looked for in all that is stored, logged, raised and shown."""
    caplog.set_level(logging.DEBUG)
    review_id = await review_of(app, quorum=2, schema='{"type": "object"}')
    token = await app.reviews.issue_token(review_id, actor="ann")
    lost = token[:5] + ("B" if token[5] == "A" else "A") + token[6:]
    said = []
    attempts: list[tuple[str, Any, dict[str, Any]]] = [
        (token, "perhaps", {}), (token, "correct", {"value": 7}), (token, "continue", {"actor": "eve"}),
        (token, "continue", {"tenant": "other"}), (token, "continue", {}), (token, "continue", {}),
        (lost, "continue", {}), (token[:-1], "continue", {}), (token, "continue", {"note": "\0"}), (token, 7, {}),
    ]  # fmt: skip
    for shown, verdict, more in attempts:
        try:
            said.append(repr(await app.reviews.resume(shown, verdict, **more)))
        except StepfastError as error:
            said.append(everything_said(error))
    said += [repr(await app.reviews.get(review_id)), repr(await app.reviews.list()), repr(await app.reviews.stats())]
    said += [repr(shown_token(token)), repr(app.token_keys), repr(app.token_keys.for_old()), repr(vars(app))]
    said += [record.getMessage() for record in caplog.records] + [str(vars(record)) for record in caplog.records]
    said.append(await everything_stored(database))
    secrets = [token, token[4:], token[-43:], lost, KEYS[1], KEYS[1][2:]]
    assert [secret for secret in secrets if any(secret in text for text in said)] == []


async def everything_stored(database: str) -> str:
    """Every row, and on SQLite the files themselves."""
    if database.startswith("sqlite"):
        folder = Path(database.removeprefix("sqlite:///")).parent
        files = [file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(".token-key")]
        return "".join(file.read_bytes().decode("latin-1") for file in files)
    async with asking(database) as connection:
        tables = await connection.fetch("select tablename from pg_tables where schemaname = 'stepfast'")
        rows = [await connection.fetch(f"select * from stepfast.{table[0]}") for table in tables]
    return str([list(row) for found in rows for row in found])


async def test_the_search_finds_a_token_that_is_stored_in_plain(app, database):
    """The broken twin: a comment that holds it is found."""
    review_id = await review_of(app)
    token = await app.reviews.issue_token(review_id, actor="ann")
    await app.reviews.comment(review_id, f"it is {token}")
    assert token in await everything_stored(database)


def test_a_token_is_nowhere_in_the_trouble_of_blocking_code(tmp_path, token_keys):
    with BlockingStepfast(f"sqlite:///{tmp_path}/app.db", workflows=[say], worker=False) as app:
        token, _ = new_token(NOWHERE, read_keys(KEYS[1])[0])
        with pytest.raises(TokenWrong) as caught:
            app.reviews.resume(token, "continue")
    assert token not in everything_said(caught.value)


def test_a_secret_shows_itself_to_nobody():
    secret = Secret("hello")
    assert "hello" not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


async def test_what_names_no_run_is_logged_without_it(app, caplog):
    with pytest.raises(TokenWrong):
        await app.reviews.resume("sfr_nonsense", "continue", tenant="acme")
    [line] = [record.getMessage() for record in caplog.records if "token_refused" in record.getMessage()]
    assert "acme" in line
    assert "nonsense" not in line
