"""Which texts of a decision, a start or a history may be large, and how each is swapped for its reference and back."""

from __future__ import annotations

from collections.abc import Iterator

from stepfast.engine.values import Values
from stepfast.kernel.blobs import is_reference
from stepfast.kernel.decisions import NOTHING_YET, Continue, Decision, HeldRun, History, NewRun


def has_large(decision: Decision, threshold: int) -> bool:
    """Whether something of a decision must be put away before it can be saved."""
    for record in decision.records:
        if len(record.input) > threshold or (record.value is not None and len(record.value) > threshold):
            return True
    outcome, release = decision.outcome, decision.release
    # Nearly all decisions record one step and nothing else.
    if outcome is None and release is None and not decision.children and not decision.reviews:
        return False
    if outcome is not None and outcome.value is not None and len(outcome.value) > threshold:
        return True
    if isinstance(release, Continue) and len(release.input) > threshold:
        return True
    texts = [*(child.input for child in decision.children), *(review.shown for review in decision.reviews)]
    return any(len(text) > threshold for text in texts)


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
