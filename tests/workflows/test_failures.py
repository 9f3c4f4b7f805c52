"""Exceptions survive as data: as their own class where that can be made again, else as what is known of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import traceback
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel import marks
from stepfast.kernel.decisions import CallId
from stepfast.kernel.errors import IllegalMove, Invalid, LeaseLost, NotFound, StepFailed, StepfastError
from stepfast.workflows import failures
from stepfast.workflows.failures import MAX_CAUSES, MAX_NOTES, Failure, describe, from_text, revive, to_text


class Declined(Exception):
    def __init__(self, message: str, reason: str = "unknown") -> None:
        super().__init__(message)
        self.reason = reason


class Composed(Exception):
    def __init__(self, order: int, reason: str) -> None:
        super().__init__(f"order {order}: {reason}")


class Reduced(Exception):
    def __init__(self, order: int) -> None:
        super().__init__(f"order {order}")
        self.order = order

    def __reduce__(self) -> tuple[Any, ...]:
        return Reduced, (self.order,)


class Outer:
    class Nested(Exception):
        pass


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message for you")

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} for you")


class Shapeshifter(Exception):
    def __new__(cls, *args: Any) -> Any:
        return ValueError(*args) if args else super().__new__(cls)


def shapeshifter() -> Shapeshifter:
    error: Shapeshifter = Shapeshifter()
    error.args = ("x",)
    return error


class HalfText(Exception):
    __str__ = typing.cast(Any, lambda self: 5)


class Exploding(Exception):
    made = False

    def __init__(self, message: str) -> None:
        if Exploding.made:
            raise RuntimeError("only once")
        Exploding.made = True
        super().__init__(message)


class Leaving(Exception):
    def __init__(self, message: str, *more: object) -> None:
        if not more:
            raise SystemExit(message)
        super().__init__(message)


class LeavingWhenAsked(Exception):
    def __str__(self) -> str:
        raise SystemExit("asked")


class Interrupted(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class CalledOff(Exception):
    def __str__(self) -> str:
        raise asyncio.CancelledError


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The error with a traceback, as user code would have raised it."""
    try:
        raise error from cause
    except BaseException as caught:  # noqa: BLE001
        return caught


def recorded(error: BaseException) -> BaseException:
    """The error as it is read from its record."""
    return revive(from_text(to_text(describe(error))))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        ValueError(),
        KeyError("key"),
        OSError(2, "gone"),
        FileNotFoundError(2, "gone", "/tmp/x"),
        ValueError("several", 1, None, 2.5, [True, {"a": []}]),
        ValueError((1, 2), [b"\xff", (b"", {"a": ()})]),
        ValueError("\ud800"),
        ValueError("\0"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"),
        SyntaxError("invalid syntax", ("<string>", 1, 5, "x = = 1", 1, 6)),
        subprocess.CalledProcessError(1, ["ls"], b"out", b"\xff"),
        Declined("too much", "limit"),
        Reduced(7),
        Outer.Nested("inside"),
        subprocess.CalledProcessError(1, "ls"),
        LeaseLost("Run 7"),
        Invalid("not so"),
        IllegalMove("Run 7", object()),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_can_be_made_again_keeps_its_class_and_message(error):
    revived = recorded(raised(error))
    assert type(revived) is type(error)
    assert str(revived) == str(error)
    assert revived.args == error.args or isinstance(error, IllegalMove)


@pytest.mark.parametrize(
    "error",
    [
        Declined("500: " + "x" * 17_000),
        Declined("\n" * 17_000, "y" * 17_000),
        Declined("500", reason="x" * 70_000),
        json.JSONDecodeError("Expecting value", "[\n" * 40_000, 60_001),
        UnicodeDecodeError("utf-8", b"x" * 70_000, 60_000, 60_001, "invalid start byte"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_long_texts_keeps_its_class_and_their_heads(error):
    revived = recorded(raised(error))
    assert type(revived) is type(error)
    assert str(revived)[:200] == str(error)[:200] or isinstance(error, UnicodeDecodeError)
    assert len(to_text(describe(error))) < 100_000


def test_what_was_left_out_of_a_long_text_is_said_in_it():
    declined = recorded(Declined("500: " + "x" * 17_000, "y" * 70_000))
    assert isinstance(declined, Declined)
    assert "characters left out ...\nxxx" in str(declined)
    assert declined.reason.startswith("yyy")
    assert "characters left out ...\nyyy" in declined.reason


def test_attributes_too_many_for_a_record_go_largest_first():
    declined = Declined("no", "limit")
    vars(declined).update(rows=list(range(2_500)), more=list(range(2_400)))
    assert vars(recorded(declined)).keys() - {"__notes__"} == {"reason", "more"}


def test_of_attributes_as_large_as_each_other_the_first_goes_first():
    declined = Declined("no")
    vars(declined).update(rows=list(range(2_000)), more=list(range(2_000)))
    assert vars(recorded(declined)).keys() - {"__notes__"} == {"reason", "more"}


def test_a_small_attribute_stays_beside_many_that_are_too_large():
    declined = Declined("no")
    vars(declined).update({f"rows {number}": {"all": list(range(4_000))} for number in range(100)}, order="7")
    assert vars(recorded(declined)).keys() - {"__notes__"} == {"reason", "order"}


def test_an_attribute_whose_name_is_no_text_costs_the_others_nothing():
    declined = Declined("no", "limit")
    typing.cast(dict[object, object], vars(declined))[5] = "five"
    assert vars(recorded(declined)).keys() - {"__notes__"} == {"reason"}


class Unusual(AttributeError):
    name = property(lambda self: 1 / 0)


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (ImportError("no", name="shop", path="/srv/shop.py"), {"name": "shop", "path": "/srv/shop.py"}),
        (ModuleNotFoundError("no", name="shop"), {"name": "shop", "path": None}),
        (AttributeError("no", name="price", obj=object()), {"name": "price"}),
        (NameError("no", name="price"), {"name": "price"}),
        (UnboundLocalError("no", name="price"), {"name": "price"}),
        (NameError("no"), {"name": None}),
        (Unusual("no"), {}),
    ],
    ids=lambda case: type(case).__name__,
)
def test_what_errors_of_python_know_beside_their_arguments_comes_back(error, known):
    revived = recorded(raised(error))
    assert type(revived) is type(error)
    assert {name: getattr(revived, name) for name in known} == known


def test_two_halves_of_a_character_come_back_as_that_character():
    error = ValueError("\ud83d\ude00", {"\ud83d\ude00": "\ud83d"})
    vars(error)["face"] = "\ud83d\ude00"
    revived = recorded(error)
    assert isinstance(revived, ValueError)
    assert revived.args == ("\U0001f600", {"\U0001f600": "\ud83d"})
    assert vars(revived)["face"] == "\U0001f600"


def test_keys_that_would_become_one_are_not_kept():
    assert isinstance(recorded(ValueError({"\ud83d\ude00": 1, "\U0001f600": 2})), StepFailed)


class Slotted(Exception):
    __slots__ = ("body", "status")

    def __init__(self, message: str, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = 500
        self.body = body


def test_attributes_in_slots_come_back():
    error = Slotted("no", b"\xff")
    revived = recorded(raised(error))
    assert isinstance(revived, Slotted)
    assert (revived.status, revived.body) == (500, b"\xff")


def test_attributes_that_json_has_come_back():
    declined = Declined("too much", "limit")
    declined.add_note("seen by ann")
    declined.__dict__["handle"] = object()
    assert vars(recorded(declined)) == {"reason": "limit", "__notes__": ["seen by ann", *recorded_notes(declined)]}


def recorded_notes(error: BaseException) -> list[str]:
    return [note for note in recorded(error).__notes__ if note.startswith(failures.RECORDED)]


def test_errors_of_stepfast_keep_their_code():
    assert describe(NotFound("Run 7")).code == "E-RUN-001"
    revived = recorded(NotFound("Run 7"))
    assert isinstance(revived, StepfastError)
    assert revived.code == "E-RUN-001"


def local_error() -> Exception:
    class Local(Exception):
        pass

    return Local("here")


@pytest.mark.parametrize(
    ("error", "type_name", "message"),
    [
        (local_error(), "tests.workflows.test_failures:local_error.<locals>.Local", "here"),
        (Composed(7, "no"), "tests.workflows.test_failures:Composed", "order 7: no"),
        (ValueError(float("nan")), "builtins:ValueError", "nan"),
        (ValueError({"__stepfast_bytes__": "eA=="}), "builtins:ValueError", "{'__stepfast_bytes__': 'eA=='}"),
        (ValueError(list(range(10_000))), "builtins:ValueError", None),
        (Hostile("x"), "tests.workflows.test_failures:Hostile", failures.NO_MESSAGE),
        (HalfText("x"), "tests.workflows.test_failures:HalfText", failures.NO_MESSAGE),
        (shapeshifter(), "tests.workflows.test_failures:Shapeshifter", "x"),
        (Exploding("once"), "tests.workflows.test_failures:Exploding", "once"),
        (Leaving("out", "of", "here"), "tests.workflows.test_failures:Leaving", "out"),
        (LeavingWhenAsked("x"), "tests.workflows.test_failures:LeavingWhenAsked", failures.NO_MESSAGE),
        (CalledOff("x"), "tests.workflows.test_failures:CalledOff", failures.NO_MESSAGE),
        (KeyboardInterrupt("stop"), "builtins:KeyboardInterrupt", "stop"),
        (SystemExit(3), "builtins:SystemExit", "3"),
    ],
    ids=lambda case: type(case).__name__,
)
def test_any_other_error_comes_back_as_what_is_known_of_it(error, type_name, message):
    revived = recorded(error)
    assert isinstance(revived, StepFailed)
    assert revived.type_name == type_name
    assert message in (None, revived.message)


def test_a_class_that_is_gone_comes_back_as_what_is_known_of_it():
    gone = Failure("no_such_module:Gone", "it was", traceback="Traceback: it was", args='["it was"]', restorable=True)
    revived = revive(gone)
    assert isinstance(revived, StepFailed)
    assert (revived.type_name, revived.message, revived.traceback) == ("no_such_module:Gone", "it was", gone.traceback)


def test_a_class_that_has_come_to_leave_when_it_is_made_ends_nobody_who_reads_its_record():
    revived = revive(Failure(f"{__name__}:Leaving", "it was", args='["it was"]', restorable=True))
    assert isinstance(revived, StepFailed)
    assert revived.message == "it was"


def test_ctrl_c_while_an_error_is_described_is_heard():
    with pytest.raises(KeyboardInterrupt):
        describe(Interrupted("x"))


@pytest.mark.parametrize("name", ["builtins:print", "builtins:str", "builtins:SystemExit", "os:path", "nonsense", ""])
def test_a_record_that_names_no_exception_makes_none(name):
    assert isinstance(revive(Failure(name, "x", args='["x"]', restorable=True)), StepFailed)


def test_an_error_of_another_main_module_comes_back_as_what_is_known_of_it():
    script = (
        "from stepfast.workflows.failures import describe, to_text\n"
        "class Mine(Exception): pass\n"
        "print(to_text(describe(Mine('there'))))"
    )
    text = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    revived = revive(from_text(text))
    assert isinstance(revived, StepFailed)
    assert (revived.type_name, revived.message) == ("__main__:Mine", "there")


def test_an_error_that_was_recorded_twice_tells_the_same():
    for error in (Composed(7, "no"), Declined("too much"), ValueError("x" * 100_000)):
        once = describe(raised(error))
        twice = describe(revive(once))
        assert (twice.type, twice.message, twice.args, twice.notes) == (once.type, once.message, once.args, once.notes)


def test_the_stored_traceback_is_shown_with_the_revived_error():
    def charge() -> None:
        raise Declined("too much")

    with pytest.raises(Declined) as caught:
        charge()
    shown = "".join(traceback.format_exception(recorded(caught.value)))
    assert "As recorded when it was raised:" in shown
    assert "in charge" in shown


def test_notes_come_back_once():
    error = ValueError("x")
    error.add_note("order 7")
    assert describe(recorded(recorded(error))).notes == ("order 7",)


def test_causes_come_back_as_causes():
    revived = recorded(raised(ValueError("outer"), raised(Composed(7, "no"))))
    assert isinstance(revived.__cause__, StepFailed)
    assert revived.__cause__.message == "order 7: no"


def test_an_error_met_while_handling_another_has_it_as_cause_unless_suppressed():
    error = ValueError("second")
    error.__context__ = KeyError("first")
    assert isinstance(recorded(error).__cause__, KeyError)
    error.__suppress_context__ = True
    assert recorded(error).__cause__ is None


def test_causes_in_a_circle_end():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    described = describe(first)
    assert described.cause is not None
    assert described.cause.cause is None


def test_a_long_chain_of_causes_is_cut():
    error: BaseException | None = None
    for number in range(50):
        following = ValueError(number)
        following.__cause__ = error
        error = following
    depth, failure = 0, describe(typing.cast(ValueError, error))
    while failure.cause is not None:
        depth, failure = depth + 1, failure.cause
    assert depth == 8


def test_long_texts_keep_their_head_and_tail():
    error = ValueError(f"head{'x' * 100_000}tail")
    error.add_note("n" * 100_000)
    failure = describe(raised(error))
    assert len(failure.message) <= 8_000
    assert len(failure.traceback) <= 16_000
    assert len(failure.notes[0]) <= 8_000
    assert failure.message.startswith("headx")
    assert failure.message.endswith("xtail")
    assert "characters left out" in failure.message


def test_a_group_comes_back_as_a_group():
    inner = ExceptionGroup("inner", [TypeError("t"), Composed(7, "no")])
    revived = recorded(raised(ExceptionGroup("outer", [ValueError("v"), inner])))
    assert isinstance(revived, ExceptionGroup)
    assert revived.message == "outer"
    assert isinstance(revived.exceptions[0], ValueError)
    assert isinstance(revived.exceptions[1], ExceptionGroup)
    assert [type(each) for each in revived.exceptions[1].exceptions] == [TypeError, StepFailed]


class Refusals(ExceptionGroup[Exception]):
    order = 0


class Counted(ExceptionGroup[Exception]):
    def __new__(cls, errors: list[Exception]) -> Counted:
        return super().__new__(cls, f"{len(errors)} errors", errors)


def test_a_group_of_a_class_of_its_own_comes_back_as_such():
    group = Refusals("all", [Declined("a"), Refusals("more", [Composed(7, "no")])])
    group.order = 7
    revived = recorded(raised(group))
    assert isinstance(revived, Refusals)
    assert revived.order == 7
    assert str(revived) == str(group)
    assert [type(each) for each in revived.exceptions] == [Declined, Refusals]


def test_a_group_whose_class_is_made_otherwise_comes_back_as_a_plain_one():
    revived = recorded(raised(Counted([Declined("a")])))
    assert type(revived) is ExceptionGroup
    assert revived.message == "1 errors"


def test_a_group_of_interruptions_comes_back_as_a_group_that_interrupts_nothing():
    revived = recorded(BaseExceptionGroup("stopped", [KeyboardInterrupt()]))
    assert isinstance(revived, ExceptionGroup)
    assert isinstance(revived.exceptions[0], StepFailed)


def test_a_wide_group_is_cut_to_a_size_that_can_be_stored():
    group = ExceptionGroup("wide", [ValueError("x" * 10_000) for _ in range(2_000)])
    assert len(describe(group).inner) < 64
    assert len(to_text(describe(group))) < 4 * 1024 * 1024


def test_a_wide_group_says_how_many_of_its_errors_were_left_out():
    group = ExceptionGroup("wide", [ValueError(number) for number in range(2_000)])
    left_out = 2_000 - len(describe(group).inner)
    assert f"{left_out:,} more errors were left out." in recorded(group).__notes__
    assert not describe(ExceptionGroup("narrow", [ValueError(1)])).notes


def test_a_group_that_is_recorded_again_says_in_one_note_what_is_missing():
    around, wide = RuntimeError("around"), ExceptionGroup("wide", [ValueError(number) for number in range(2_000)])
    for number in range(MAX_NOTES):
        wide.add_note(f"note {number}")
    around.__cause__ = recorded(wide)
    again = recorded(around).__cause__
    assert isinstance(again, ExceptionGroup)
    told = [note for note in again.__notes__ if note.endswith("left out.")]
    assert told == [f"{2_000 - len(again.exceptions):,} more errors were left out."]
    deep: Exception = ValueError("inside")
    for _ in range(MAX_CAUSES + 1):
        deep = ExceptionGroup("outside", [deep])
    assert "1 more error was left out." in to_text(describe(deep))


def test_text_of_a_newer_version_is_read_and_nonsense_is_not():
    assert from_text('{"type": "a:B", "message": "m", "colour": "red"}') == Failure("a:B", "m")
    for nonsense in ("", "5", "[]", "{}", '{"type": "a:B"}', '{"type": "a:B", "message": "m", "cause": 5}'):
        with pytest.raises(Invalid, match="A stored failure cannot be read"):
            from_text(nonsense)


class Unpredictable(Exception):
    """Does with its message whatever the message says."""

    def __str__(self) -> str:
        if "!" in (text := super().__str__()):
            raise ValueError(text)
        return text


natives = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)
classes = st.sampled_from(
    [
        Exception,
        ValueError,
        KeyError,
        OSError,
        UnicodeDecodeError,
        SystemExit,
        Declined,
        Unpredictable,
        StepFailed,
        Invalid,
    ]
)


@st.composite
def errors(draw: st.DrawFn, depth: int = 2) -> BaseException:
    args = draw(st.lists(natives | st.binary() | st.builds(object), max_size=3))
    try:
        error: BaseException = draw(classes)(*args)
    except TypeError:
        error = Exception(*args)
    error.__dict__.update(draw(st.dictionaries(st.text(), natives, max_size=2)))
    if depth:
        error.__cause__ = draw(st.none() | errors(depth - 1))
        error.__context__ = draw(st.none() | errors(depth - 1))
    return error


@given(errors())
def test_any_error_is_described_stored_and_revived(error):
    failure = describe(raised(error, error.__cause__))
    text = to_text(failure)
    assert from_text(text) == failure
    assert json.loads(text.encode())["type"] == failure.type
    revived = revive(failure)
    assert isinstance(revived, Exception)
    if failure.restorable:
        assert type(revived) is type(error)
        assert str(revived) == str(error)


@given(st.text(), st.text(), st.text() | st.none(), st.text() | st.none(), st.booleans())
def test_any_record_is_revived(type_name, message, args, state, restorable):
    assert isinstance(revive(Failure(type_name, message, "", args, state, restorable)), Exception)


CHARGE, SHIP = CallId("", "charge", 1), CallId("2", "ship", 1)


def marked(error: Exception, call: CallId = CHARGE) -> Any:
    return failures.mark(error, call)


def test_a_marked_error_keeps_its_call_as_data_and_nothing_else_of_the_mark():
    plain, with_mark = describe(Declined("too much")), describe(marked(Declined("too much")))
    assert with_mark.step == "charge#1"
    assert (with_mark.args, with_mark.state, with_mark.message) == (plain.args, plain.state, plain.message)
    assert from_text(to_text(with_mark)) == with_mark


@pytest.mark.parametrize(
    "error",
    [
        raised(ValueError("outer"), marked(KeyError("inner"))),
        ExceptionGroup("both", [ValueError("other"), marked(KeyError("inner"))]),
        raised(ValueError("outer"), ExceptionGroup("one", [marked(KeyError("inner"))])),
    ],
    ids=["cause", "group", "group as cause"],
)
def test_a_mark_is_found_below_what_was_raised(error):
    assert failures.first_step(describe(error)) == "charge#1"
    assert failures.marked_calls(error) == [CHARGE]


def test_all_marks_of_a_group_are_found_in_order():
    group = ExceptionGroup("both", [marked(KeyError("a")), marked(KeyError("b"), SHIP)])
    assert failures.marked_calls(group) == [CHARGE, SHIP]
    assert marks.failing_steps(to_text(describe(group))) == {"charge#1", "2/ship#1"}


def test_what_was_being_handled_when_a_call_failed_did_not_end_the_run():
    error = marked(KeyError("second"), SHIP)
    error.__context__ = marked(ValueError("first"))
    assert failures.marked_calls(error) == [SHIP]
    assert marks.failing_steps(to_text(describe(error))) == {"2/ship#1"}


def test_a_revived_error_has_no_mark_of_the_run_that_it_comes_from():
    assert failures.marked_calls(recorded(marked(ValueError("x")))) == []


def test_an_error_that_takes_no_attributes_is_marked_all_the_same():
    assert failures.marked_calls(marked(Hostile("x"))) == [CHARGE]


class Unchangeable(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise RuntimeError("nothing may be set here")


def test_an_error_whose_class_refuses_attributes_is_revived_with_its_cause():
    error = Unchangeable("no")
    BaseException.__setattr__(error, "__cause__", ValueError("why"))
    revived = failures.revive(failures.describe(error))
    assert (type(revived), str(revived), str(revived.__cause__)) == (Unchangeable, "no", "why")
