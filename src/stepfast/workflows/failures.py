"""Exceptions as data: described once, when they are recorded, and revived wherever the record is read."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import json
import re
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from types import MemberDescriptorType
from typing import Any, cast

from stepfast.kernel.decisions import CallId
from stepfast.kernel.errors import Invalid, StepFailed, StepfastError
from stepfast.kernel.texts import class_name, clean, guarded
from stepfast.workflows.class_names import find_class, name_of
from stepfast.workflows.packing import MAX_SAID, Excerpt, pack, pack_all, shortened, unpack

MAX_MESSAGE = 8_000
MAX_TRACEBACK = 16_000
MAX_NOTES = 8
MAX_CAUSES = 8
# A wide group is cut here, so that a failure stays far below the largest value that can be stored.
MAX_FAILURES = 64

MARK = "__stepfast_call__"
BESIDE = "__stepfast_calls_beside__"
ARGS = "args"
# What classes of Python's own know beside their arguments, in no `__dict__`.
# The object of an AttributeError is not kept.
FIELDS = {ImportError: ("name", "path", "name_from"), AttributeError: ("name",), NameError: ("name",)}
# Those of Python's own that write out whatever the error was made from.
WRITTEN_OUT = (BaseException, KeyError)
# What is in an error's attributes and is told elsewhere, or by nobody.
UNTOLD = frozenset(("__notes__", MARK, BESIDE))
RECORDED = "As recorded when it was raised:\n"
TRACEBACK = "Traceback (most recent call last):\n"
LEFT_OUT = re.compile(r"([0-9,]*[0-9]) more errors? (?:was|were) left out\.")
NO_MESSAGE = "(its message cannot be read)"


@dataclass(frozen=True, slots=True)
class Failure:
    """What is kept of an exception; `restorable` says that its class could be made again when it was recorded.

    It is made from `args`; that of a group from the message and what is `inner`.
    """

    type: str
    message: str
    traceback: str = ""
    args: str | None = None
    state: str | None = None
    restorable: bool = False
    code: str | None = None
    notes: tuple[str, ...] = ()
    step: str | None = None
    """The durable call that handed it to the code which raised it further."""
    unheard: tuple[str, ...] = ()
    """Of a run's failure: the calls that failed too, but whose failures the code had no more use for."""
    handlers: tuple[str, ...] = ()
    """Of a run's failure: the calls that the code made while it handled what the run failed for."""
    cause: Failure | None = None
    inner: tuple[Failure, ...] = ()


def describe(error: BaseException) -> Failure:
    """The error as data; raises nothing but a `KeyboardInterrupt`, whatever the error's own class does."""
    return Description().of(error, ()) or Failure("builtins:Exception", NO_MESSAGE)


def askable(error: BaseException) -> BaseException:
    """The error, or what is told of it if its class, or that of one in it, does not let itself be asked what it is."""
    if guarded(_tells_its_class, error):
        return error
    failure = describe(error)
    return StepFailed(failure.message, type_name=failure.type, traceback=failure.traceback)


def _tells_its_class(error: BaseException) -> bool:
    error.__class__  # noqa: B018 - its class may raise anything at that, and `isinstance` asks for it
    return all(map(_tells_its_class, inner_of(error)))


def mark(error: BaseException, call: CallId) -> BaseException:
    """The error, which from now on knows the durable call that it is the failure of."""
    # Past whatever the error's class does on assignment; `args`, and so its text and equality, know nothing of it.
    with contextlib.suppress(Exception):
        object.__getattribute__(error, "__dict__")[MARK] = call
    return error


def mark_beside(error: BaseException, calls: Iterable[CallId]) -> BaseException:
    """The error, which from now on also stands for other calls that failed beside it."""
    known = guarded(beside, error) or ()
    with contextlib.suppress(Exception):
        object.__getattribute__(error, "__dict__")[BESIDE] = tuple(dict.fromkeys([*known, *calls]))
    return error


def marked_calls(error: BaseException) -> list[CallId]:
    """The durable calls whose failures an error comes from or stands for, also by its causes and inner errors."""
    found: dict[CallId, None] = {}
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        call = guarded(mark_of, each)
        found |= dict.fromkeys([] if call is None else [call])
        found |= dict.fromkeys(guarded(beside, each) or ())
        if call is None:
            pending += [guarded(cause_of, each), *reversed(guarded(inner_of, each) or ())]
    return list(found)


def handled_calls(error: BaseException | None, known: tuple[CallId, ...] = ()) -> tuple[CallId, ...]:
    """The durable calls whose failures code handles that handles this error, beside those that are known."""
    return known if error is None else (*known, *marked_calls(error))


def first_step(failure: Failure | None) -> str | None:
    """The durable call that a failure came from first, if it came from any."""
    if failure is None:
        return None
    if failure.step is not None:
        return failure.step
    inner = (first_step(each) for each in (*failure.inner, failure.cause))
    return next((step for step in inner if step is not None), None)


def to_text(failure: Failure) -> str:
    return json.dumps(trimmed(asdict(failure)), ensure_ascii=False, separators=(",", ":"))


def from_text(text: str) -> Failure:
    """The failure that `to_text` wrote; fields that a newer version may have added are left out."""
    try:
        return read(json.loads(text))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Invalid(f"A stored failure cannot be read: {type(error).__name__}: {error}.") from error


def revive(failure: Failure) -> BaseException:
    """An exception to raise: of its own class if that is restorable and importable here, else a `StepFailed`."""
    cause = revive(failure.cause) if failure.cause else None
    error = revive_group(failure) or guarded(revive_own, failure)
    if error is None:
        # Many an error says nothing but by its class.
        told = failure.message or f"{class_name(failure.type) or 'An error'} without a message"
        error = StepFailed(told, type_name=failure.type, traceback=failure.traceback)
    # Past whatever the error's class does on assignment, which would be asked for notes too.
    BaseException.__setattr__(error, "__cause__", cause)
    notes = [*failure.notes, *([RECORDED + failure.traceback] if failure.traceback else [])]
    if notes:
        BaseException.__setattr__(error, "__notes__", [*getattr(error, "__notes__", ()), *notes])
    return error


def revive_group(failure: Failure) -> BaseException | None:
    if not failure.inner:
        return None
    inner = [each for each in map(revive, failure.inner) if isinstance(each, Exception)]
    own = guarded(functools.partial(own_group, inner=inner), failure) if failure.restorable else None
    return own or ExceptionGroup(failure.message, inner)


def own_group(failure: Failure, inner: list[Exception]) -> BaseException | None:
    cls = find_class(failure.type)
    if cls is None or not issubclass(cls, ExceptionGroup):
        return None
    made: BaseException = cls(failure.message, inner)
    if type(made) is not cls:
        return None
    restore_state(made, failure.state)
    return made


def revive_own(failure: Failure) -> BaseException | None:
    cls = find_class(failure.type) if failure.restorable and failure.args else None
    if cls is None or not issubclass(cls, Exception):
        return None
    error = cls(*unpack(failure.args or "[]"))
    if type(error) is not cls:
        return None
    restore_state(error, failure.state)
    return error


def restore_state(error: BaseException, state: str | None) -> None:
    for name, value in unpack(state or "{}").items():
        # Past whatever the error's class does on assignment.
        if name == ARGS or isinstance(inspect.getattr_static(type(error), name, None), MemberDescriptorType):
            BaseException.__setattr__(error, name, value)
        else:
            vars(error)[name] = value


class Description:
    """One error with its causes and inner errors, bounded in depth and number."""

    def __init__(self) -> None:
        self._left = MAX_FAILURES
        self._vast = 0

    def of(self, error: BaseException | None, above: tuple[int, ...], below_mark: bool = False) -> Failure | None:
        if error is None or id(error) in above or len(above) > MAX_CAUSES or self._left == 0:
            return None
        self._left -= 1
        above = (*above, id(error))
        args = guarded(restorable_args, error)
        is_own = args is not None or guarded(remakes_group, error) is True
        # What a failed call met on its way, or was met while handling, is not what ended the run.
        call = None if below_mark else guarded(mark_of, error)
        below_mark = below_mark or call is not None
        cause = self.of(guarded(cause_of, error), above, below_mark)
        within = guarded(inner_of, error) or ()
        inner = self._all(within, above, below_mark)
        message = self._message(error)
        # With a traceback Python writes out the causes and inner errors, too.
        in_brief = message if self._vast else None
        return Failure(
            type=guarded(type_name, error) or "builtins:Exception",
            message=message,
            traceback=guarded(functools.partial(traceback_of, in_brief=in_brief), error) or "",
            args=args,
            state=guarded(functools.partial(state_of, args=args), error) if is_own else None,
            restorable=is_own,
            code=guarded(code_of, error),
            notes=guarded(functools.partial(notes_of, left_out=len(within) - len(inner)), error) or (),
            step=call.address if call else None,
            cause=cause,
            inner=inner,
        )

    def _message(self, error: BaseException) -> str:
        # The more of them say too much, the less is looked at of each.
        brief = guarded(functools.partial(brief_message, parts=MAX_SAID // (1 + self._vast)), error)
        self._vast += brief is not None
        message = guarded(message_of, error) if brief is None else brief
        return NO_MESSAGE if message is None else message

    def _all(self, errors: tuple[BaseException, ...], above: tuple[int, ...], below: bool) -> tuple[Failure, ...]:
        described = (self.of(error, above, below) for error in errors)
        return tuple(failure for failure in described if failure is not None)


def type_name(error: BaseException) -> str:
    # Not isinstance, which asks the error itself.
    known = getattr(error, "type_name", "") if issubclass(type(error), StepFailed) else ""
    return clean(known or name_of(type(error)))


def message_of(error: BaseException) -> str:
    return shortened(error.message if isinstance(error, BaseExceptionGroup) else str(error), MAX_MESSAGE)


def brief_message(error: BaseException, parts: int = MAX_SAID) -> str | None:
    """What an error says whose arguments would take Python too long to write out; None of any other."""
    writer = next((cls for cls in WRITTEN_OUT if cls.__str__ is type(error).__str__), None)
    excerpt = Excerpt(MAX_MESSAGE, parts)
    args = excerpt.of(error.args) if writer else ()
    return None if writer is None or excerpt.is_whole else shortened(str(writer(*args)), MAX_MESSAGE)


def traceback_of(error: BaseException, in_brief: str | None = None) -> str:
    if isinstance(error, StepFailed) and error.traceback:
        return shortened(error.traceback, MAX_TRACEBACK)
    recorded = next((note for note in map(str, getattr(error, "__notes__", ())) if note.startswith(RECORDED)), None)
    if recorded and error.__traceback__ is None:
        # It came along as the cause of another, and was raised by nobody here.
        return shortened(recorded.removeprefix(RECORDED), MAX_TRACEBACK)
    if in_brief is not None:
        calls = "".join([TRACEBACK, *traceback.format_tb(error.__traceback__)] if error.__traceback__ else [])
        return shortened(f"{calls}{type(error).__qualname__}: {in_brief}\n", MAX_TRACEBACK)
    return shortened("".join(traceback.format_exception(error, chain=False)), MAX_TRACEBACK)


def code_of(error: BaseException) -> str | None:
    return clean(error.code) if isinstance(error, StepfastError) else None


def notes_of(error: BaseException, left_out: int = 0) -> tuple[str, ...]:
    """What was noted of it, and how many of its inner errors are not kept, here and when it was recorded before."""
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    own = [note for note in notes if not note.startswith(RECORDED) and not LEFT_OUT.fullmatch(note)]
    left_out += sum(int(told[1].replace(",", "")) for told in map(LEFT_OUT.fullmatch, notes) if told)
    kept = tuple(shortened(note, MAX_MESSAGE) for note in own[:MAX_NOTES])
    return (*kept, f"{left_out:,} more error{' was' if left_out == 1 else 's were'} left out.") if left_out else kept


def cause_of(error: BaseException) -> BaseException | None:
    cause = error.__cause__
    return error.__context__ if cause is None and not error.__suppress_context__ else cause


def inner_of(error: BaseException) -> tuple[BaseException, ...]:
    return tuple(error.exceptions) if isinstance(error, BaseExceptionGroup) else ()


def beside(error: BaseException) -> tuple[CallId, ...]:
    calls: tuple[CallId, ...] = object.__getattribute__(error, "__dict__").get(BESIDE, ())
    return calls


def mark_of(error: BaseException) -> CallId | None:
    call: CallId | None = object.__getattribute__(error, "__dict__").get(MARK)
    return call


def restorable_args(error: BaseException) -> str | None:
    """The arguments from which the error's class makes an equal error, as JSON, or None."""
    cls = type(error)
    # What ends a process or cancels a task must not do so again whenever a record is read.
    if not issubclass(cls, Exception) or issubclass(cls, (BaseExceptionGroup, StepFailed)):
        return None
    if find_class(name_of(cls)) is not cls:
        return None
    # Errors of Stepfast keep their class even if they were made from more than JSON has.
    candidates = [making_args(error), [str(error)]] if issubclass(cls, StepfastError) else [making_args(error)]
    # Packed first: what can be packed is not too vast to be made and written out.
    packed = ((args, text) for args in candidates if (text := pack(args)))
    remade = (text for args, text in packed if guarded(functools.partial(remakes, args), error))
    return next((text for text in remade if guarded(functools.partial(makes, text), cls)), None)


def making_args(error: BaseException) -> list[Any]:
    """What the class is called with; an OSError keeps its file name apart from `args`, and says so in `__reduce__`."""
    reduced: Any = error.__reduce__()
    return list(reduced[1] if reduced[0] is type(error) else error.args)


def remakes(args: list[Any], error: BaseException) -> bool:
    made = type(error)(*args)
    return type(made) is type(error) and str(made) == str(error)


def makes(args: str, cls: type) -> bool:
    """Whether the class takes the arguments as they are stored, some of them perhaps shortened."""
    return type(cls(*unpack(args))) is cls


def remakes_group(error: BaseException) -> bool:
    """Whether the class of a group makes one of its message and errors; one of Python's own needs no word of it."""
    cls = type(error)
    if not issubclass(cls, ExceptionGroup) or cls is ExceptionGroup or find_class(name_of(cls)) is not cls:
        return False
    group: ExceptionGroup[Exception] = cast(Any, error)
    made: BaseException = cls(group.message, list(group.exceptions))
    return type(made) is cls and str(made) == str(error)


def state_of(error: BaseException, args: str | None) -> str | None:
    """The error's attributes, as far as they can be kept: many classes keep more than they pass on as `args`."""
    state = attributes_of(error)
    # Of arguments that were shortened its class may make another message.
    if args and unpack(args) != (making := making_args(error)) and [*error.args] != making:
        state[ARGS] = error.args
    return pack_all(state)


def attributes_of(error: BaseException) -> dict[str, Any]:
    own: Any = object.__getstate__(error)
    in_dict, in_slots = own if isinstance(own, tuple) else (own, {})
    told = {name: each for name, each in (in_dict or {}).items() if name not in UNTOLD}
    return {**told, **in_slots, **fields_of(error)}


def fields_of(error: BaseException) -> dict[str, Any]:
    names = itertools.chain.from_iterable(names for cls, names in FIELDS.items() if issubclass(type(error), cls))
    members = {name: inspect.getattr_static(type(error), name, None) for name in names}
    # Past whatever the error's class has in their place.
    values = {name: each.__get__(error) for name, each in members.items() if isinstance(each, MemberDescriptorType)}
    return {name: value for name, value in values.items() if value is not None}


def trimmed(data: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in data.items() if value not in (None, "", (), False) or name == "message"}
    if "cause" in kept:
        kept["cause"] = trimmed(kept["cause"])
    if "inner" in kept:
        kept["inner"] = [trimmed(each) for each in kept["inner"]]
    return kept


def read(data: dict[str, Any]) -> Failure:
    known = {field.name: data[field.name] for field in fields(Failure) if field.name in data}
    known["notes"] = tuple(known.get("notes", ()))
    known["unheard"] = tuple(known.get("unheard", ()))
    known["handlers"] = tuple(known.get("handlers", ()))
    known["cause"] = read(known["cause"]) if known.get("cause") else None
    known["inner"] = tuple(read(each) for each in known.get("inner", ()))
    return Failure(**known)
