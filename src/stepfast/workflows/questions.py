"""What a workflow asks a person, checked when it is asked: the title, what is shown, who may answer, and how."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid, NotShowable, StepfastError
from stepfast.kernel.reviews import ESCALATE, FAIL, REVIEW_KINDS, ItemKind, Owner, Verdict
from stepfast.kernel.texts import check_optional_text, check_text, shown
from stepfast.workflows.codec import ValueCodec, form_of
from stepfast.workflows.culprits import find, foreign, is_native
from stepfast.workflows.review_calls import Codecs, Question
from stepfast.workflows.typed_dicts import modern

MAX_PEOPLE = 1_000

# A deadline cannot say what a correction would be, nor to whom else to turn.
BY_DEADLINE = (Verdict.CONTINUE, Verdict.REJECT, Verdict.RETRY)


class Terms(NamedTuple):
    """Who may answer, and by when, as the code says it."""

    role: str | None
    assignee: str | None
    verdicts: Iterable[str] | None
    expires: Duration | None
    on_expiry: str
    escalate_to: str | None
    escalate_role: str | None
    quorum: int
    quorum_reject: int
    kind: str


def question_of(title: str, show: Any, hint: Any, terms: Terms) -> tuple[Question, Codecs]:
    """The question, and how its values reach the code; what does not fit is refused here, before anything is stored."""
    check_text("The title of a review", title)
    verdicts = _verdicts(terms.verdicts, hint)
    expires_ms = _expires_ms(terms.expires)
    escalate_to = Owner(
        check_optional_text("escalate_to of a review", terms.escalate_to),
        check_optional_text("escalate_role of a review", terms.escalate_role),
    )
    owner = Owner(
        check_optional_text("The assignee of a review", terms.assignee),
        check_optional_text("The role of a review", terms.role),
    )
    schema = schema_text(hint)
    text, codecs = _shown(title, show, hint, verdicts)
    question = Question(
        title,
        text,
        _kind(terms.kind),
        verdicts,
        schema,
        owner,
        _people("quorum", terms.quorum),
        _people("quorum_reject", terms.quorum_reject),
        expires_ms,
        _on_expiry(terms.on_expiry, verdicts, expires_ms, escalate_to),
        escalate_to,
    )
    return question, codecs


def _verdicts(given: Iterable[str] | None, hint: Any) -> tuple[Verdict, ...]:
    if given is None:
        corrections = () if hint is None else (Verdict.CORRECT,)
        return (Verdict.CONTINUE, Verdict.REJECT, *corrections, Verdict.ESCALATE)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise Invalid(f"verdicts of a review is {shown(given)}; give a list of verdicts.")
    verdicts = tuple(dict.fromkeys(_verdict(each) for each in given))
    if not set(verdicts) - {Verdict.ESCALATE}:
        raise Invalid("verdicts of a review names none that could end it. Allowed are " + _listed(Verdict) + ".")
    return verdicts


def _verdict(given: str) -> Verdict:
    if given not in tuple(Verdict):
        raise Invalid(f"verdicts of a review has {shown(given)}; allowed are {_listed(Verdict)}.")
    return Verdict(given)


def _kind(given: str) -> ItemKind:
    if given not in REVIEW_KINDS:
        raise Invalid(f"The kind of a review is {shown(given)}; allowed are {_listed(REVIEW_KINDS)}.")
    return ItemKind(given)


def _people(what: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MAX_PEOPLE:
        raise Invalid(f"{what} of a review is {shown(given)}; it must be a number from 1 to {MAX_PEOPLE:,}.")
    return given


def _expires_ms(given: Duration | None) -> int | None:
    if given is None:
        return None
    span = span_ms(given, "expires of a review")
    if span <= 0:
        raise Invalid(f"expires of a review is {shown(given)}; nobody could answer in time. Give people a while.")
    return span


def _on_expiry(given: str, verdicts: tuple[Verdict, ...], expires_ms: int | None, escalate_to: Owner) -> str:
    if given == FAIL:
        return FAIL
    if expires_ms is None:
        raise Invalid(f'on_expiry of a review is {shown(given)}, but it never expires. Say when, as in expires="24h".')
    if given == ESCALATE:
        if escalate_to == Owner():
            raise Invalid('on_expiry="escalate" needs somebody to turn to: give escalate_to=... or escalate_role=....')
        return ESCALATE
    allowed = [FAIL, ESCALATE, *(verdict for verdict in BY_DEADLINE if verdict in verdicts)]
    if given not in allowed:
        raise Invalid(f"on_expiry of a review is {shown(given)}; allowed here are {_listed(allowed)}.")
    return Verdict(given)


def _shown(title: str, show: Any, hint: Any, verdicts: tuple[Verdict, ...]) -> tuple[str, Codecs]:
    """What is shown as JSON; of the review's type where the code may get it back as it is."""
    what = f"What review {shown(title)} shows"
    plain = ValueCodec(Any, what)
    if hint is None or isinstance(hint, dict):
        return _plain_text(show, plain), Codecs(plain, ValueCodec(Any, f"The correction of review {shown(title)}"))
    corrected = ValueCodec(hint, f"The correction of review {shown(title)}")
    if Verdict.CONTINUE not in verdicts:
        return _plain_text(show, plain), Codecs(plain, corrected)
    typed = ValueCodec(hint, what)
    try:
        # Plain JSON will do for any type that it fits.
        value = typed.decode(plain.encode(show)) if is_native(show) else show
        return typed.restore(value)[0], Codecs(typed, corrected)
    except StepfastError as error:
        raise NotShowable(
            f"{error} It must fit the review's type, for the verdict `continue` gives it to the code; "
            f"or name verdicts without `continue`."
        ) from error


def _plain_text(show: Any, plain: ValueCodec) -> str:
    try:
        return plain.encode(show)
    except StepfastError as error:
        culprit = find(show, foreign)
        if culprit is None:
            raise NotShowable(str(error)) from error
        remedy = "Show plain JSON, or give its type with type=..."
        raise NotShowable(culprit._replace(remedy=remedy).told(plain.what)) from error


def schema_text(hint: Any) -> str | None:
    """The JSON Schema of a review's type, by which corrections are checked when they are given."""
    if hint is None:
        return None
    if isinstance(hint, dict):
        return _own_schema(hint)
    try:
        return _cached_schema(hint)
    except TypeError:
        return _schema_of(hint)


def _own_schema(schema: dict[str, Any]) -> str:
    try:
        text = ValueCodec(Any, "The JSON Schema of a review").encode(schema)
    except StepfastError as error:
        raise Invalid(str(error)) from error
    trouble = _trouble_with(text)
    if trouble is not None:
        raise Invalid(f"The type of a review is no JSON Schema: {trouble}.")
    return text


@lru_cache(maxsize=256)
def _trouble_with(text: str) -> str | None:
    # Slow to import, and needed only by those who bring a schema of their own.
    from stepfast.workflows.schemas import faults_of_form

    faults = faults_of_form(json.loads(text))
    return ".".join(map(str, ("$", *faults[0][0]))) + f": {faults[0][1]}" if faults else None


@lru_cache(maxsize=256)
def _cached_schema(hint: Any) -> str:
    return _schema_of(hint)


def _schema_of(hint: Any) -> str:
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic.errors import PydanticInvalidForJsonSchema

    # Refuses what could not be read back at all, in words about the hint.
    form_of(hint, "The type of a review")
    try:
        return json.dumps(TypeAdapter(modern(hint)).json_schema(by_alias=False))
    except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
        reason = str(error).split("\n")[0]
        raise Invalid(f"The type of a review, {hint!r}, has no JSON Schema: {reason}. Use plain types.") from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(str, names))
