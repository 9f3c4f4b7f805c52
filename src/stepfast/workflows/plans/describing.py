"""A plan as plain data: for people who read it, and for the digest that its runs are pinned to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stepfast.kernel.retry import Retry
from stepfast.workflows.codec import digest
from stepfast.workflows.culprits import is_native
from stepfast.workflows.plans.ordering import dependencies
from stepfast.workflows.plans.plan import (
    Ask,
    AssetUse,
    Block,
    Constant,
    Do,
    Each,
    Emit,
    Fail,
    Formula,
    Gate,
    Parallel,
    Plan,
    PlanStep,
    Policy,
    Receive,
    RunChild,
    Set,
    Sleep,
    Switch,
    Use,
    Verb,
    steps_read,
)

View = dict[str, Any]

VERBS: Mapping[type, str] = {
    Use: "use",
    RunChild: "run",
    Do: "do",
    Parallel: "parallel",
    Switch: "switch",
    Ask: "review",
    Receive: "receive",
    Sleep: "sleep",
    Emit: "emit",
    Set: "set",
    Fail: "fail",
}


def describe(plan: Plan) -> View:
    """A plan as data: its order in layers, and of each step the verb, what it needs and reads, config and policies."""
    view: View = {"name": plan.name, "version": plan.version}
    view |= _given(
        description=plan.description, metadata=_json(dict(plan.metadata)), at_once=plan.at_once, digest=plan.digest
    )
    return view | _plan(plan, Describer())


def digest_of(plan: Plan) -> str:
    """The digest of what a plan does; words for people are no part of it."""
    view = {"name": plan.name, "version": plan.version, "at_once": plan.at_once}
    return digest(json.dumps(view | _plan(plan, Describer(has_words=False)), sort_keys=True, default=str))


def _plan(plan: Plan, describer: Describer) -> View:
    return describer.block(plan.block) | ({} if plan.output is None else {"output": told(plan.output)})


def layers(block: Block) -> list[list[str]]:
    """The ids of a block's steps in the order in which they can begin: those of one layer side by side."""
    waits = _waits(block)
    followers: dict[str, list[str]] = {name: [] for name in waits}
    for name, needed in waits.items():
        for need in needed:
            followers[need].append(name)
    left = {name: len(needed) for name, needed in waits.items()}
    order = {name: number for number, name in enumerate(waits)}
    found, layer = [], [name for name, count in left.items() if not count]
    while layer:
        found.append(layer)
        following: list[str] = []
        for name in layer:
            del left[name]
            for follower in followers[name]:
                left[follower] -= 1
                if not left[follower]:
                    following.append(follower)
        layer = sorted(following, key=order.__getitem__)
    # A ring has no first step; what is in one is shown all the same.
    return [*found, list(left)] if left else found


def told(formula: Formula) -> Any:
    """A formula for people: its text, its value, or what it reads."""
    if isinstance(formula, Constant):
        return _json(formula.value)
    if hasattr(formula, "described"):
        return formula.described()
    text = getattr(formula, "text", None)
    if isinstance(text, str):
        return f"${{ {text} }}"
    paths = [".".join(reference) for reference in formula.references]
    return f"${{ {', '.join(paths)} }}" if paths else "${ ... }"


class Describer:
    """Describes steps, and the steps inside them; with or without the words that only people need."""

    def __init__(self, has_words: bool = True) -> None:
        self._has_words = has_words

    def block(self, block: Block) -> View:
        view: View = {"layers": layers(block)}
        groups: dict[str, list[str]] = {}
        for step in block.steps:
            if step.group:
                groups.setdefault(step.group, []).append(step.id)
        waits = _waits(block)
        steps = [self._step(step, waits[step.id]) for step in block.steps]
        return view | _given(groups=list(groups.values()) if self._has_words else None) | {"steps": steps}

    def _step(self, step: PlanStep, waits: frozenset[str]) -> View:
        view: View = {"id": step.id, "verb": VERBS[type(step.verb)]}
        view |= dict(self._verb(step.verb))
        view |= _given(
            after=sorted(waits),
            needs=list(step.needs),
            reads=sorted(steps_read(step)),
            when=step.when,
            require=step.require,
            each=None if step.each is None else _each(step.each),
            loop=None if step.loop is None else {"while": told(step.loop.condition), "max": step.loop.most},
            retry=None if step.retry is None else _retry(step.retry),
            timeout_ms=step.limits.attempt_ms,
            total_timeout_ms=step.limits.total_ms,
            queue=step.queue,
            priority=step.priority,
            gate=_given(before=_gate(step.before), after=_gate(step.after)),
            undo=None if step.undo is None else dict(self._verb(step.undo)),
            catch=[{"errors": list(each.errors), **self.block(each.block)} for each in step.catch],
            policies=[_policy(each) for each in step.policies],
            assets=_given(reads=[_asset(use) for use in step.reads], writes=[_asset(use) for use in step.writes]),
        )
        if self._has_words:
            view |= _given(group=step.group, description=step.description, metadata=_json(dict(step.metadata)))
        return view | {"on_failure": step.on_failure.value} | ({"mock": _json(step.mock)} if step.has_mock else {})

    def _verb(self, verb: Verb) -> Iterator[tuple[str, Any]]:
        match verb:
            case Use(executor, inputs, config):
                yield from _given(executor=executor, config=_json(dict(config))).items()
                yield "with", told(inputs)
            case RunChild(workflow, inputs, version):
                yield from _given(workflow=workflow, version=version).items()
                yield "with", told(inputs)
            case Do(block):
                yield from self.block(block).items()
            case Parallel(branches, join):
                yield "join", _join(join.kind, join.number)
                yield from self.block(Block(branches)).items()
            case Switch(cases):
                yield "cases", [{**_given(when=case.when), **self.block(case.block)} for case in cases]
            case _:
                yield from _simple(verb).items()


def _waits(block: Block) -> dict[str, frozenset[str]]:
    waits = dependencies(block)
    if block.is_sequence:
        for earlier, later in zip(block.steps, block.steps[1:], strict=False):
            waits[later.id] |= {earlier.id}
    return waits


def _simple(verb: Verb) -> View:
    match verb:
        case Ask(title, show, schema, terms):
            plain = {name: _plain(term) for name, term in terms.items()}
            return _given(title=title, show=show, schema=schema and dict(schema), terms=plain)
        case Receive(signal, timeout, schema):
            return _given(signal=signal, timeout=timeout, schema=schema and dict(schema))
        case Emit(event, data):
            return _given(event=event, data=data)
        case Sleep(duration):
            return {"duration": told(duration)}
        case Set(value):
            return {"value": told(value)}
        case Fail(message):
            return {"message": told(message)}
        case _:
            return {}


def _asset(use: AssetUse) -> View:
    said = {"type": use.media_type, "content": use.content, "metadata": use.metadata, "tags": list(use.tags)}
    return {"asset": told(use.asset), **_given(**said)}


def _each(each: Each) -> View:
    view = {"over": told(each.items), "as": each.name, "join": _join(each.join.kind, each.join.number)}
    return view | _given(key=each.key, at_once=each.at_once)


def _join(kind: str, number: float) -> Any:
    if kind == "quorum":
        return {"quorum": f"{number:g}%"}
    return {"first": int(number)} if kind == "first" else kind


def _gate(gate: Gate | None) -> View | None:
    if gate is None:
        return None
    terms = {name: _plain(term) for name, term in gate.terms.items()}
    return {"reason": gate.reason, **_given(when=gate.when, title=gate.title), **terms}


def _policy(policy: Policy) -> View:
    view: View = {"id": policy.id, "check": policy.check.executor, "conflict": policy.conflict}
    terms = {name: _plain(term) for name, term in policy.terms.items()}
    return view | _given(before=policy.before, when=policy.when, timeout_ms=policy.limits.attempt_ms) | terms


def _retry(retry: Retry) -> View:
    return {
        "attempts": retry.attempts,
        "base": str(retry.base),
        "factor": retry.factor,
        "cap": str(retry.cap),
        "jitter": retry.jitter,
        "on": _names(retry.on),
        "never": _names(retry.never),
    }


def _names(classes: Any) -> list[str]:
    several = classes if isinstance(classes, tuple) else (classes,)
    return [getattr(each, "__name__", str(each)) for each in several]


def _plain(value: Any) -> Any:
    return [str(each) for each in value] if isinstance(value, list | tuple | set | frozenset) else _json(value)


def _given(**fields: Any) -> View:
    """The fields that say something; formulas as people read them."""
    said = {name: value for name, value in fields.items() if value not in (None, "", 0, [], {}, ())}
    return {name: told(value) if hasattr(value, "evaluate") else value for name, value in said.items()}


def _json(value: Any) -> Any:
    if is_native(value):
        return value
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=str)
