"""Names are bounded by their bytes: what one store takes the other takes too, and what is wider is refused by name."""

from __future__ import annotations

import random

import pytest

from stepfast import Invalid, InvalidDefinition, load_template, receive, step, workflow
from stepfast.kernel.texts import MAX_BYTES, MAX_NAME_BYTES
from stepfast.storage import artifact, save, write_asset
from tests.support.apps import app_on

# Each has four bytes of its own in UTF-8, so that no index makes less of a text of them.
WIDE = range(0x20000, 0x2A6DF)


def wide(size: int, seed: int) -> str:
    """A text of so many bytes."""
    return "".join(map(chr, random.Random(seed).choices(WIDE, k=size // 4)))


NAME, STEP, ASSET = (wide(MAX_NAME_BYTES, seed) for seed in range(3))
QUEUE, TENANT, KEY, SIGNAL, TAG, THREAD, SUBJECT, CORRELATION, ACTOR = (wide(MAX_BYTES, seed) for seed in range(3, 12))


@step(name=STEP)
async def keep() -> None:
    await save(ASSET, "kept")
    await artifact(ASSET, b"content")
    await write_asset(ASSET, b"content", tags=[TAG])


@workflow(name=NAME, queue=QUEUE)
async def widest() -> str:
    await keep()
    return await receive(SIGNAL, str)


@pytest.fixture
async def app(database):
    async with app_on(database, [widest]) as app:
        yield app


async def test_the_widest_names_of_all_kinds_are_stored_together(app):
    given = {"tenant": TENANT, "key": KEY, "thread_id": THREAD, "subject": SUBJECT, "tags": [TAG]}
    run = await app.start(widest, **given, correlation_id=CORRELATION, actor=ACTOR)
    await run.signal(SIGNAL, "heard", key=KEY, actor=ACTOR)
    assert await run.result(timeout="30s") == "heard"
    assert (await app.start(widest, **given, correlation_id=CORRELATION, actor=ACTOR)).id == run.id


@pytest.mark.parametrize("what", ["tenant", "key", "queue", "thread_id", "subject", "correlation_id", "actor", "tags"])
async def test_a_start_with_a_wider_text_is_refused_by_what_it_is(app, what):
    text = wide(MAX_BYTES, 0)[1:] + "éa€"
    assert (len(text), len(text.encode())) == (MAX_BYTES // 4 + 2, MAX_BYTES + 2)
    with pytest.raises(Invalid, match=f"{what} has 1,002 bytes as UTF-8; allowed are 1 to 1,000") as raised:
        await app.start(widest, **{what: [text] if what == "tags" else text})
    assert raised.value.code == "E-VAL-001"
    assert not await app.runs()


async def test_a_signal_with_a_wider_name_is_refused(app):
    run = await app.start(widest)
    with pytest.raises(Invalid, match="The signal's name has 1,004 bytes"):
        await run.signal(SIGNAL + "😀")


@pytest.mark.parametrize("kind", [step, workflow])
def test_a_step_or_workflow_with_a_wider_name_is_refused(kind):
    with pytest.raises(InvalidDefinition, match="1 to 200 printable characters of at most 500 bytes"):
        kind(name="😀" * 130)(lambda: None)


def test_a_template_with_a_wider_name_is_refused():
    text = f"stepfast: 1\nworkflow: {'😀' * 130}\n"
    with pytest.raises(Invalid, match="at most 500 bytes"):
        load_template(text)
