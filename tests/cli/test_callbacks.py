"""`stepfast callbacks`: the token comes from stdin, a file or a prompt, and never from the arguments."""

from __future__ import annotations

import pytest

from stepfast import Outside, RunFailed, RunState, callback_token, step, workflow
from stepfast.kernel.errors import StoreUnavailable
from tests.cli.invoking import Office
from tests.support.apps import app_on
from tests.support.asking import KEYS
from tests.support.virtual_time import until_state

TOKENS: list[str] = []


@step
async def order_sign() -> Outside[int]:
    TOKENS.append(await callback_token())
    return Outside("sign", callback=True)


@workflow
async def sign() -> int:
    return await order_sign()  # type: ignore[return-value]


@pytest.fixture
async def run(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
    TOKENS.clear()
    async with app_on(database, [sign]) as app:
        run = await app.start(sign)
        await until_state(run, RunState.WAITING)
        yield run


@pytest.fixture
def office(database):
    return Office(database)


async def test_a_token_on_stdin_completes_a_step(run, office):
    done = await office("callbacks", "complete", "7", stdin=TOKENS[0] + "\n")
    assert (done.code, run.id in done.out) == (0, True)
    assert await run.result(timeout="30s") == 7


async def test_a_token_in_a_file_fails_a_step(run, office, tmp_path):
    (tmp_path / "token").write_text(TOKENS[0] + "\n")
    done = await office("callbacks", "fail", "PaperJam", "tray 2", "--token-file", f"{tmp_path}/token")
    assert done.code == 0
    with pytest.raises(RunFailed, match="tray 2"):
        await run.result(timeout="30s")


async def test_a_token_among_the_arguments_is_refused_and_not_repeated(run, office):
    done = await office("callbacks", "complete", TOKENS[0])
    assert (done.code, TOKENS[0] in done.out + done.err) == (2, False)
    assert (await run.info()).state is RunState.WAITING


async def test_a_token_that_is_wrong_is_refused_by_its_code(run, office):
    done = await office("callbacks", "complete", "7", stdin="sfc_nonsense\n")
    assert (done.code, "E-CALL-001" in done.err) == (4, True)


async def test_a_token_that_was_used_is_refused_as_that_of_a_review_is(run, office):
    assert (await office("callbacks", "complete", "7", stdin=TOKENS[0])).code == 0
    done = await office("callbacks", "complete", "8", stdin=TOKENS[0])
    assert (done.code, "E-CALL-00" in done.err) == (4, True)


@pytest.mark.parametrize("words", [("complete", "7"), ("fail", "PaperJam")], ids=["complete", "fail"])
async def test_the_state_that_is_told_is_that_of_after_the_call_back(database, office, monkeypatch, words):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
    TOKENS.clear()
    async with app_on(database, [sign]) as app:
        await until_state(await app.start(sign), RunState.WAITING)
    done = await office("callbacks", *words, "-o", "json", stdin=TOKENS[0])
    assert (done.code, done.json["state"]) == (0, "running")


async def test_a_call_back_counts_although_the_store_is_away_right_behind_it(run, office, monkeypatch):
    async def away(*_: object) -> None:
        raise StoreUnavailable("The database did not answer.")

    with monkeypatch.context() as broken:
        broken.setattr("stepfast.runs.Run.info", away)
        done = await office("callbacks", "complete", "7", stdin=TOKENS[0])
    assert (done.code, run.id in done.out) == (0, True)
    assert await run.result(timeout="30s") == 7
