"""Files that are not what they should be: each is refused or told of by name and place, and never written over."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stepfast.kernel.auditing import Fault
from stepfast.kernel.errors import Invalid, StepfastError, StoreUnavailable, StoreUnusable
from stepfast.seal_files import LONGEST_LINE, SealFile
from stepfast.signing import KeyedSigner
from stepfast.trail_files import lines_of, verify_lines
from tests.audit.test_verify import KEYS, sealed_twice, sealing
from tests.support.rights import without_rights
from tests.support.sql import tamper
from tests.support.workflows import say

SIGNER = KeyedSigner(KEYS)


@pytest.fixture
def copies(tmp_path):
    return tmp_path / "seals.jsonl"


@pytest.fixture
async def opened(database, copies):
    """Three seals with their copies."""
    async with sealing(database, copies) as opened:
        await sealed_twice(opened)
        await opened.run(say, "three")
        await opened.app.audit.seal()
        yield opened


async def faults(opened) -> list[str]:
    return [finding.fault for finding in (await opened.app.audit.verify()).findings]


def lines_in(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


async def test_a_seal_file_that_was_cut_in_the_middle_of_a_line_lacks_that_seal(opened, copies):
    copies.write_text(lines_in(copies)[0] + lines_in(copies)[1][:-20])
    assert await faults(opened) == [Fault.COPY_MISSING]


async def test_the_last_seal_may_be_on_its_way_to_the_copies(opened, copies):
    copies.write_bytes(copies.read_bytes()[:-20])
    report = await opened.app.audit.verify()
    assert (report.findings, report.uncopied) == ((), 1)


async def test_an_older_seal_file_lacks_the_seals_since(opened, copies):
    copies.write_text(lines_in(copies)[0])
    assert await faults(opened) == [Fault.COPY_MISSING]


async def test_a_seal_file_in_another_order_is_found(opened, copies):
    copies.write_text("".join(reversed(lines_in(copies))))
    assert await faults(opened) != []


FOREIGN_LINES = {
    "no JSON": b"not a seal\n",
    "an empty line": b"\n",
    "other JSON": b'{"number": 3}\n',
    "a list": b"[1, 2]\n",
    "words for numbers": b'{"number": "one", "after": 0, "upto": 1, "events": 1, "leaves": 1, "root": "a", '
    b'"previous": "", "sealed_at": 1, "key": "1", "signature": "a"}\n',
    "bytes that are no text": b"\xff\xfe\x00\n",
    "deep": b"[" * 3_000 + b"\n",
    "a long line": b'{"number": ' + b" " * LONGEST_LINE + b"1}\n",
    "zeros": b"\0" * 100 + b"\n",
}


@pytest.mark.parametrize("line", FOREIGN_LINES.values(), ids=FOREIGN_LINES)
async def test_a_line_that_is_no_seal_is_named_by_its_place(opened, copies, line):
    copies.write_bytes(copies.read_bytes() + line)
    with pytest.raises(Invalid, match=rf"{copies.name}:4: a line that is no seal"):
        await opened.app.audit.verify()


FOREIGN_FILES = {
    "a text": b"dear diary\n",
    "a text without an end": b"dear diary",
    "bytes": bytes(range(256)) * 100,
    "one long line": b"x" * 100_000,
}


@pytest.mark.parametrize("content", FOREIGN_FILES.values(), ids=FOREIGN_FILES)
async def test_a_file_of_somebody_else_is_not_written_over(database, copies, content):
    copies.write_bytes(content)
    async with sealing(database, copies) as opened:
        with pytest.raises(Invalid, match="no seal"):
            await sealed_twice(opened)
    assert copies.read_bytes() == content


async def test_copies_of_another_database_get_no_seals_of_this_one(opened, copies, tmp_path):
    async with sealing(f"sqlite:///{tmp_path}/other.db", copies) as other:
        with pytest.raises(StoreUnusable, match="Seal 3 is kept outside"):
            await sealed_twice(other)
        assert Fault.COPY_DIFFERS in [finding.fault for finding in (await other.app.audit.verify()).findings]
    assert await faults(opened) == []


async def test_a_seal_is_copied_behind_the_one_that_it_follows_upon_alone(opened, copies, tmp_path):
    before = copies.read_bytes()
    async with sealing(f"sqlite:///{tmp_path}/other.db") as other:
        for _ in range(2):
            await sealed_twice(other)
        with pytest.raises(StoreUnusable, match="Seal 4 does not follow upon seal 3"):
            await SealFile(copies).keep(await other.app.parts.store.seals(3, 10))
    assert copies.read_bytes() == before


async def test_a_database_that_was_cut_short_is_told_of_when_it_is_sealed(opened, database):
    await tamper(database, "delete from stepfast.leaf where number > 1")
    await tamper(database, "delete from stepfast.seal where number > 1")
    await tamper(database, "delete from stepfast.event where position > (select upto from stepfast.seal)")
    with pytest.raises(StoreUnusable, match="cut short"):
        await opened.app.audit.seal()


async def cut_by_one_seal(opened, database) -> None:
    """As in an older backup, the next seal gets the number of one that is gone."""
    await tamper(database, "delete from stepfast.leaf where number > 2")
    await tamper(database, "delete from stepfast.seal where number > 2")
    await opened.run(say, "more than there was")


async def test_a_seal_in_the_place_of_one_that_is_gone_is_told_of_when_it_is_made(opened, database, copies):
    before = copies.read_bytes()
    await cut_by_one_seal(opened, database)
    with pytest.raises(StoreUnusable, match="Seal 3"):
        await opened.app.audit.seal()
    assert copies.read_bytes() == before


async def test_a_seal_that_is_not_what_its_copy_says_is_told_of_by_whoever_seals_next(opened, database, copies):
    before = copies.read_bytes()
    await cut_by_one_seal(opened, database)
    for _ in range(2):
        with pytest.raises(StoreUnusable, match="Seal 3"):
            await opened.app.audit.seal()
    assert copies.read_bytes() == before


@pytest.mark.parametrize("act", ["seal", "verify"])
async def test_a_folder_is_no_seal_file(opened, copies, act):
    copies.unlink()
    copies.mkdir()
    with pytest.raises(StoreUnavailable, match="cannot be used: Is a directory"):
        await getattr(opened.app.audit, act)()


async def test_a_device_is_no_seal_file():
    with pytest.raises(StoreUnavailable, match="cannot be used: it is no regular file"):
        await SealFile(Path(os.devnull)).last_number()
    with pytest.raises(StoreUnavailable, match="cannot be used: it is no regular file"):
        await SealFile(Path(os.devnull)).keep([])


@pytest.mark.parametrize("act", ["seal", "verify"])
async def test_a_seal_file_that_may_not_be_read_is_named(tmp_path, copies, act):
    async with sealing(f"sqlite:///{tmp_path}/app.db", copies) as opened:
        await sealed_twice(opened)
        copies.chmod(0)
        with without_rights(), pytest.raises(StepfastError, match=r"seals.jsonl cannot be used: Permission denied"):
            await (SealFile(copies).last_number() if act == "seal" else anext(SealFile(copies).kept()))


@pytest.fixture
async def written(opened) -> list[str]:
    return [line async for line in opened.app.audit.export()]


def refusal(lines: list[str]) -> str:
    with pytest.raises(Invalid) as refused:
        verify_lines(lines, SIGNER)
    return str(refused.value)


@pytest.mark.parametrize("kept", [1, 3, 6])
async def test_a_trail_that_was_cut_between_lines_is_not_whole(written, kept):
    assert f"Line {kept + 1} of the trail cannot be read. The file ends before it is whole." in refusal(written[:kept])


async def test_a_trail_that_was_cut_in_a_line_is_told_of_by_its_number(written):
    assert "Line 3 of the trail" in refusal([*written[:2], written[2][:-10]])


async def test_lines_behind_the_end_are_refused(written):
    assert "behind the end" in refusal([*written, written[0]])


FOREIGN = {
    "no JSON": "hello",
    "no kind": '{"seal": 1}',
    "another kind": '{"kind": "letter"}',
    "a kind that is no text": '{"kind": ["seal"]}',
    "deep": "[" * 100_000,
    "a seal without its parts": '{"kind": "seal", "number": 1}',
    "a leaf with more": '{"kind": "leaf", "more": 1, "way": []}',
    "an event with a word for a number": '{"kind": "event", "position": "1", "seq": 1, "run_id": "a"}',
    "a leaf with a number for a word": json.dumps(
        {"kind": "leaf", "run_id": 1, "tenant": "a", "first_seq": 1, "last_seq": 1, "digest": "", "way": None}
    ),
    "a huge number": '{"kind": "event", "position": 1' + "0" * 5_000 + "}",
}


@pytest.mark.parametrize("line", FOREIGN.values(), ids=FOREIGN)
async def test_a_foreign_line_in_a_trail_is_told_of_by_its_number(written, line):
    assert "Line 2 of the trail" in refusal([written[0], line, *written[1:]])


BAD_FILES = {
    "wrong encoding": ('{"kind":"end"}\n'.encode("utf-16"), "Line 1 of the trail cannot be read. It is not UTF-8"),
    "empty": (b"", "Line 1 of the trail cannot be read. The file ends"),
    "binary": (bytes(range(256)), "Line 1 of the trail"),
}


@pytest.mark.parametrize(("content", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_is_no_trail_is_told_of(tmp_path, content, words):
    (tmp_path / "trail.jsonl").write_bytes(content)
    with pytest.raises(Invalid, match=words):
        verify_lines(lines_of(tmp_path / "trail.jsonl"), SIGNER)


def test_a_line_without_an_end_is_not_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("stepfast.trail_files.LONGEST_LINE", 1_000)
    (tmp_path / "trail.jsonl").write_bytes(b"x" * 5_000)
    with pytest.raises(Invalid, match="longer than 1,000 bytes"):
        list(lines_of(tmp_path / "trail.jsonl"))


def test_a_file_that_is_not_there_or_is_a_folder_is_named(tmp_path):
    for path in (tmp_path, tmp_path / "absent.jsonl"):
        with pytest.raises(StoreUnavailable, match=f"{path} cannot be read"):
            list(lines_of(path))


async def test_a_run_whose_leaf_was_left_out_of_its_own_file_is_found(opened):
    run_id = (await opened.app.runs())[0].run_id
    written = [line async for line in opened.app.audit.export(run_id=run_id)]
    less = [line for line in written if '"kind":"leaf"' not in line]
    assert Fault.INSERTED in [finding.fault for finding in verify_lines(less, SIGNER).findings]
