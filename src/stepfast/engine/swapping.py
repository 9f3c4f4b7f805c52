"""Which texts of a decision, a start or a history may be large, and how each is swapped for its reference and back."""

from __future__ import annotations

from collections.abc import Iterator

from stepfast.engine.values import Values
from stepfast.kernel.blobs import is_reference
from stepfast.kernel.decisions import NOTHING_YET, Continue, Decision, HeldRun, History, NewRun


def size_of(decision: Decision) -> int:
    """How long all texts of a decision are together; those of events are short."""
    size = 0
    for record in decision.records:
        size += len(record.input) + len(record.value or "") + len(record.error or "")
    if decision.outcome is not None:
        size += len(decision.outcome.value or "") + len(decision.outcome.error or "")
    # Nearly all decisions record one step, or the end, and nothing else.
    if decision.release is not None or decision.children or decision.reviews:
        size += sum(map(len, _rare_texts(decision)))
    return size


def has_large(decision: Decision, threshold: int) -> bool:
    """Whether something of a decision must be put away before it can be saved."""
    texts = [text for record in decision.records for text in (record.input, record.value)]
    if decision.outcome is not None:
        texts.append(decision.outcome.value)
    return any(text is not None and len(text) > threshold for text in [*texts, *_rare_texts(decision)])


def _rare_texts(decision: Decision) -> list[str]:
    release = decision.release
    continued = [release.input] if isinstance(release, Continue) else []
    return [*continued, *(child.input for child in decision.children), *(review.shown for review in decision.reviews)]


async def slim(values: Values, decision: Decision) -> None:
    """Put the large texts of a decision away, and refer to them in their place."""
    tenant, run_id = decision.tenant, decision.fence.run_id

    async def kept(text: str | None) -> str | None:
        return None if text is None else await values.keep(tenant, run_id, text)

    decision.records = [
        record._replace(input=await values.keep(tenant, run_id, record.input), value=await kept(record.value))
        for record in decision.records
    ]
    decision.children = [await slim_start(values, child) for child in decision.children]
    decision.reviews = [
        review._replace(shown=await values.keep(tenant, run_id, review.shown)) for review in decision.reviews
    ]
    if decision.outcome is not None:
        decision.outcome = decision.outcome._replace(value=await kept(decision.outcome.value))
    if isinstance(decision.release, Continue):
        text = await values.keep(tenant, run_id, decision.release.input)
        decision.release = decision.release._replace(input=text)


async def slim_start(values: Values, run: NewRun) -> NewRun:
    """A new run with a reference in place of an input that is large."""
    if len(run.input) <= values.threshold:
        return run
    return run._replace(input=await values.keep(run.tenant, run.run_id, run.input))


def has_references(run: HeldRun, history: History) -> bool:
    """Whether some text of a run is a reference to a large value."""
    if history is NOTHING_YET:
        return is_reference(run.input)
    return is_reference(run.input) or any(is_reference(text) for text in _texts(history))


async def fill(values: Values, run: HeldRun, history: History) -> History:
    """A run's history, and its input, with every large text in its place again."""
    texts = [run.input, *_texts(history)]
    found = await values.resolve(run.tenant, run.run_id, texts)
    if found is texts:
        return history
    run.input = found[0] or ""
    rest = iter(found[1:])
    records = [record._replace(input=next(rest) or "", value=next(rest)) for record in history.records]
    return history._replace(records=records, inbox=[message._replace(value=next(rest)) for message in history.inbox])


def _texts(history: History) -> Iterator[str | None]:
    for record in history.records:
        yield record.input
        yield record.value
    yield from (message.value for message in history.inbox)
