"""`stepfast reviews`."""

from __future__ import annotations

import base64
import json

import pytest

from stepfast import RunState
from stepfast.cli import reviews_answering
from stepfast.reviews import Reviews, ReviewStats
from tests.cli.desk import HOSTILE, WORKFLOWS, drafting
from tests.cli.invoking import Office
from tests.support.apps import app_on
from tests.support.asking import KEYS
from tests.support.following import state_of


@pytest.fixture
async def desk(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", "1:" + base64.b64encode(bytes(range(32))).decode())
    async with app_on(database, WORKFLOWS) as app:
        yield app


@pytest.fixture
def office(desk):
    return Office(desk.database)


@pytest.fixture
def ask(desk):
    """Start a run that asks, and wait until it does."""

    async def start(title="Send it?", tenant=None, **options):
        run = await desk.start(drafting, title, options, tenant=tenant)
        await state_of(run, RunState.WAITING)
        return run

    return start


async def token_of(desk, run, actor="ben"):
    [view] = await desk.reviews.list(run_id=run.id)
    return await desk.reviews.issue_token(view.review_id, actor=actor)


def is_harmless(text: str) -> bool:
    return not any(character in text for character in "\x1b\x07\u202e")


async def listed(office, *options):
    return [item["run_id"] for item in (await office.json("reviews", "list", *options))["items"]]


async def test_open_reviews_are_listed_newest_first(ask, office):
    runs = [await ask(), await ask()]
    assert await listed(office) == [run.id for run in reversed(runs)]


async def test_a_list_for_people_steers_no_terminal(ask, office):
    await ask(HOSTILE)
    done = await office("reviews", "list")
    assert (done.code, is_harmless(done.out), "\\x1b]0;owned" in done.out) == (0, True, True)


async def test_reviews_can_be_chosen(ask, office):
    plain, legal, ben = await ask(), await ask(role="legal"), await ask(assignee="ben")
    await office("reviews", "decide", plain.id, "continue")
    chosen = [
        await listed(office, *options)
        for options in (
            ("--role", "legal"),
            ("--assignee", "ben"),
            ("--state", "decided"),
            ("--state", "all"),
            ("--workflow", "other"),
            ("--run", legal.id),
            ("--since", "1h"),
            ("--tenant", "acme"),
        )
    ]
    assert chosen == [
        [legal.id],
        [ben.id],
        [plain.id],
        [ben.id, legal.id, plain.id],
        [],
        [legal.id],
        [ben.id, legal.id],
        [],
    ]


async def test_reviews_have_pages(ask, office):
    runs = [await ask(), await ask()]
    page = await office.json("reviews", "list", "--limit", "1")
    assert await listed(office, "--cursor", page["next_cursor"]) == [runs[0].id]


async def test_a_review_is_shown_whole(desk, ask, office):
    run = await ask(HOSTILE, role="legal", expires="1h")
    await token_of(desk, run)
    [view] = await desk.reviews.list()
    await desk.reviews.comment(view.review_id, HOSTILE, actor="ann")
    shown = await office.json("reviews", "show", view.review_id)
    assert (shown["title"], shown["shown"], shown["role"]) == (HOSTILE, {"text": HOSTILE}, "legal")
    assert [(said["actor"], said["text"]) for said in shown["comments"]] == [("ann", HOSTILE)]
    assert [token["actor"] for token in shown["tokens"]] == ["ben"]
    done = await office("reviews", "show", run.id)
    assert (is_harmless(done.out), "role legal" in done.out, "a correction must fit:" in done.out) == (True, True, True)


async def test_a_review_that_does_not_exist_is_not_found(ask, office):
    run = await ask()
    codes = [(await office("reviews", "show", name)).code for name in (f"{run.id}.99", f"{run.id}.odd", "nonsense")]
    assert codes == [3, 3, 3]


async def test_an_answer_reaches_the_run(ask, office):
    run = await ask()
    done = await office("reviews", "decide", run.id, "continue", "--note", "well done", "--actor", "ann")
    assert (done.code, done.out.endswith(" is decided: continue.\n")) == (0, True)
    assert await run.result(timeout="30s") == ["continue", {"text": HOSTILE}, "ann", "well done"]


@pytest.mark.parametrize("form", ["argument", "file", "stdin"])
async def test_a_correction_is_json_from_wherever_it_comes(ask, office, tmp_path, form):
    run, value = await ask(), json.dumps({"text": "better"})
    (tmp_path / "value.json").write_text(value)
    word = {"argument": value, "file": f"@{tmp_path}/value.json", "stdin": "-"}[form]
    done = await office("reviews", "decide", run.id, "correct", word, "--actor", "ann", stdin=value)
    assert done.code == 0, done.err
    assert (await run.result(timeout="30s"))[:2] == ["correct", {"text": "better"}]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("perhaps",), 4, "E-REV-005"),
        (("retry",), 4, "E-REV-005"),
        (("correct", '{"text": 7}'), 2, "E-VAL-001"),
        (("correct", "{"), 2, "E-VAL-001"),
        (("continue", '{"text": "x"}'), 2, "E-VAL-001"),
        (("continue", "--digest", "other"), 4, "E-REV-005"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused(ask, office, words, code, told):
    run = await ask()
    done = await office("reviews", "decide", run.id, *words, "--actor", "ann")
    assert (done.code, told in done.err, await listed(office)) == (code, True, [run.id])


async def test_somebody_who_is_not_asked_cannot_answer(ask, office):
    run = await ask(role="legal")
    refused = await office("reviews", "decide", run.id, "continue", "--role", "sales")
    taken = await office("reviews", "decide", run.id, "continue", "--role", "legal")
    assert (refused.code, "E-AUTH-002" in refused.err, taken.code) == (4, True, 0)


async def test_a_review_is_decided_once(ask, office):
    run = await ask()
    [name] = [item["review_id"] for item in (await office.json("reviews", "list"))["items"]]
    codes = [(await office("reviews", "decide", name, "continue")).code for _ in range(2)]
    assert (codes, (await run.result(timeout="30s"))[0]) == ([0, 4], "continue")


async def test_an_answer_that_is_sent_again_with_its_key_counts_once_and_says_the_same(ask, office):
    run = await ask()
    first, again, other = [
        await office("reviews", "decide", run.id, verdict, "--key", "answer-1")
        for verdict in ("continue", "continue", "reject")
    ]
    assert (first.code, again.code, again.out) == (0, 0, first.out)
    assert (other.code, "E-IDEM-001" in other.err) == (4, True)
    assert (await run.result(timeout="30s"))[0] == "continue"


async def test_what_is_missing_to_a_quorum_is_told(ask, office):
    run = await ask(quorum=2)
    first = await office("reviews", "decide", run.id, "continue", "--actor", "ann")
    second = await office.json("reviews", "decide", run.id, "continue", "--actor", "ben")
    assert ("has 1 of 2 answers" in first.out, second["state"], second["verdict"]) == (True, "decided", "continue")


async def test_an_escalated_review_is_for_somebody_else(ask, office):
    run = await ask()
    done = await office("reviews", "decide", run.id, "escalate", "--to-role", "board")
    assert ("is escalated to role board" in done.out, await listed(office, "--role", "board")) == (True, [run.id])


async def test_a_token_on_stdin_answers_a_review(desk, ask, office):
    run = await ask()
    done = await office("reviews", "resume", "continue", "--note", "fine", stdin=await token_of(desk, run) + "\n")
    assert (done.code, run.id in done.out) == (0, True)
    assert await run.result(timeout="30s") == ["continue", {"text": HOSTILE}, "ben", "fine"]


@pytest.mark.parametrize(("quorum", "state"), [(1, "running"), (2, "waiting")])
async def test_the_state_that_is_told_is_that_of_after_the_answer(database, monkeypatch, quorum, state):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
    async with app_on(database, WORKFLOWS) as desk:
        run = await desk.start(drafting, "Send it?", {"quorum": quorum})
        await state_of(run, RunState.WAITING)
        token = await token_of(desk, run)
    done = await Office(database)("reviews", "resume", "continue", stdin=token)
    assert (done.code, done.out) == (0, f"The answer counts. Run {run.id} is {state}.\n")


async def test_a_token_in_a_file_answers_a_review_of_any_tenant(desk, ask, office, tmp_path):
    run = await ask(tenant="acme")
    (tmp_path / "token").write_text(await token_of(desk, run) + "\n")
    done = await office("reviews", "resume", "correct", '{"text": "x"}', "--token-file", f"{tmp_path}/token")
    assert (done.code, (await run.result(timeout="30s"))[1]) == (0, {"text": "x"})


async def test_a_token_is_asked_for_on_a_terminal_without_an_echo(desk, ask, office, monkeypatch):
    run, asked = await ask(), []
    token = await token_of(desk, run)

    class Terminal:
        """What commands see of stdin when a person sits there."""

        @staticmethod
        def isatty() -> bool:
            return True

    def prompt(text, **how):
        asked.append(how)
        return token

    monkeypatch.setattr("click.prompt", prompt)
    monkeypatch.setattr(reviews_answering, "sys", type("Sys", (), {"stdin": Terminal}))
    done = await office("reviews", "resume", "continue")
    assert (done.code, asked) == (0, [{"hide_input": True, "err": True}])


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_token_among_the_arguments_is_refused_and_not_repeated(desk, ask, office, place):
    run = await ask()
    token = await token_of(desk, run)
    words = ["continue", "null"]
    words.insert(place, token)
    done = await office("reviews", "resume", *words)
    assert (done.code, token in done.out + done.err, await listed(office)) == (2, False, [run.id])


async def test_tokens_that_do_not_work_are_refused_by_their_codes(desk, ask, office):
    run, other = await ask(), await ask(tenant="acme")
    used, foreign = await token_of(desk, run), await token_of(desk, other)
    await office("reviews", "resume", "continue", stdin=used)
    told = [
        await office("reviews", "resume", "continue", *options, stdin=token)
        for token, *options in (
            (used,),
            (used[:-3] + "AAA",),
            ("nonsense",),
            ("",),
            ("sfr_" + "A" * 100_000,),
            (foreign, "--tenant", "default"),
            (foreign, "--actor", "eve"),
        )
    ]
    codes = [done.err.split(":")[0] for done in told]
    assert codes == ["E-REV-003", *["E-REV-001"] * 4, *["E-REV-004"] * 2]
    assert {done.code for done in told} == {4}
    assert [token for token in (used, foreign) for done in told if token in done.out + done.err] == []


async def test_a_token_file_that_is_not_there_is_told_of(ask, office, tmp_path):
    await ask()
    done = await office("reviews", "resume", "continue", "--token-file", f"{tmp_path}/none")
    assert (done.code, "cannot be read" in done.err) == (2, True)


async def test_a_value_does_not_come_from_where_the_token_does(ask, office):
    await ask()
    done = await office("reviews", "resume", "correct", "-", stdin="{}")
    assert (done.code, "stdin" in done.err) == (2, True)


async def test_statistics_tell_what_became_of_reviews(ask, office):
    decided, _ = await ask(), await ask(role="legal")
    await office("reviews", "decide", decided.id, "continue")
    await office("reviews", "resume", "continue", stdin="nonsense")
    figures = await office.json("reviews", "stats")
    assert (figures["opened"], figures["decided"], figures["open"]) == (2, 1, 1)
    assert (figures["is_met"], figures["refusals"]) == (True, {"E-REV-001": 1})
    assert (await office.json("reviews", "stats", "--role", "legal"))["opened"] == 1
    done = await office("reviews", "stats", "--check")
    assert (done.code, "E-REV-001: 1" in done.out) == (0, True)


async def test_a_missed_target_is_told_and_ends_a_check_with_an_error(monkeypatch, ask, office):
    async def missed(self, **where):
        return ReviewStats(2, 1, 1, 0, 0, 0, 10, 20, 0.5, 0.9, False, {})

    monkeypatch.setattr(Reviews, "stats", missed)
    plain, check = await office("reviews", "stats"), await office("reviews", "stats", "--check")
    assert (plain.code, "50.0% were decided; 90.0% should be" in plain.err, check.code) == (0, True, 1)
