"""Transformations as people write and call them."""

from __future__ import annotations

import functools
import json
from asyncio import events
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, cast

from stepfast.kernel.assets import AssetView
from stepfast.kernel.errors import InvalidDefinition, WrongCall
from stepfast.kernel.retry import Retry
from stepfast.kernel.reviews import Verdict
from stepfast.kernel.texts import check_text, shown
from stepfast.kernel.transformations import MARK
from stepfast.workflows.bodies import StepBody
from stepfast.workflows.branches import thread_code
from stepfast.workflows.child_calls import ChildKind, ChildrenCall
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.executors.health import HealthCheck
from stepfast.workflows.functions import MAX_VERSION, VERSIONS
from stepfast.workflows.joins import ONE
from stepfast.workflows.limits import Limits
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.reviewing import review
from stepfast.workflows.steps import StepAlone, ask_durably, check_name, name_for
from stepfast.workflows.transformations.keeping import kept
from stepfast.workflows.transformations.running import Spec, Terms, derivation_of
from stepfast.workflows.transformations.values import Derivation, Source

P = ParamSpec("P")
T = TypeVar("T")

VERDICTS = [Verdict.CONTINUE, Verdict.REJECT, Verdict.CORRECT, Verdict.RETRY, Verdict.ESCALATE]


class Transformation(Generic[P, T]):
    """A transformation: outside of runs its plain function; in a workflow each call is a run of its own."""

    def __init__(self, function: Callable[P, T], spec: Spec, body: StepBody) -> None:
        self.function = function
        self.spec = spec
        self.body = body
        self.alone = StepAlone(body)
        self.alone.place = f"{function.__module__}.{function.__qualname__}"
        functools.update_wrapper(cast(Callable[..., Any], self), function)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """What it makes of assets, each named by its id, `id@version` or uri: awaited, in an `async def` workflow."""
        loop = events._get_running_loop()
        if isinstance(loop, RunLoop):
            return self._derived(loop, args, kwargs)
        if loop is None and thread_code() is not None:
            raise WrongCall(f"In a `def` workflow call {self.body.name}.sync(...).")
        return self.function(*args, **kwargs)

    def sync(self, /, *args: Any, **kwargs: Any) -> Any:
        """The same in a `def` workflow."""
        thread = thread_code()
        if thread is None or events._get_running_loop() is not None:
            raise WrongCall(f"{self.body.name}.sync(...) is for `def` workflows.")
        return thread.run(partial(self._in_loop, args, kwargs))

    async def _in_loop(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        loop = events._get_running_loop()
        assert isinstance(loop, RunLoop)
        return await self._derived(loop, args, kwargs)

    async def _derived(self, loop: RunLoop, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        child = kind_of(self.body, self.spec)
        text = child.input_of(tuple(map(_named, args)), {name: _named(value) for name, value in kwargs.items()})
        while True:
            made = derivation_of(await ask_durably(loop, ChildrenCall(child, [text], ONE)))
            looked_at = await self._looked_at(made) if made["review_required"] else made
            if looked_at is not None:
                return (await kept(loop, self.body.name, looked_at))[0]

    async def _looked_at(self, made: Derivation) -> Derivation | None:
        """Once a person has looked at it; None: it is to be done again."""
        title = f"Look at what transformation {self.body.name} made of {', '.join(made['inputs'])}"[:200]
        answer = await review(title, show=dict(made), type=made.correction, verdicts=VERDICTS, kind=made.reason)
        if answer.verdict == Verdict.RETRY:
            return None
        return made.corrected(answer.value) if answer.verdict == Verdict.CORRECT else made

    def __repr__(self) -> str:
        return f"<transformation {self.body.name}>"


def kind_of(body: StepBody, spec: Spec) -> ChildKind:
    """A transformation as what children are runs of."""
    code = None if body.queue is None else body.name
    terms = ("step", body.name, 0, code, body.queue, 0, body.arguments, body.result)
    return ChildKind(*terms, metadata=json.dumps(spec.metadata))


def _named(given: Any) -> Any:
    if isinstance(given, AssetView | Source):
        return given.uri
    return [_named(each) for each in given] if isinstance(given, list) else given


class TransformationDecorator:
    """`@docs.transformation(...)`."""

    def __init__(
        self,
        full_name: Callable[[str], str],
        add: Callable[[Transformation[..., Any], Executor], None],
        name: str | None,
        terms: dict[str, Any],
        options: tuple[Retry | None, Limits, str | None],
        told: tuple[str | None, HealthCheck | None],
    ) -> None:
        self._full_name, self._add, self._name = full_name, add, name
        self._terms, self._options, self._told = terms, options, told

    def __call__(self, function: Callable[P, T]) -> Transformation[P, T]:
        name = check_name("Transformation", self._full_name(name_for(function, self._name)), function)
        spec = Spec(function, Terms(name, **_checked(name, self._terms)))
        retry, limits, queue = self._options
        queue = None if queue is None else check_text("The queue of a transformation", queue)
        body = StepBody(spec.outer, name, retry, None, queue, limits)
        body.apart = spec
        made = Transformation(function, spec, body)
        description, health = self._told
        executor = Executor(body, function, kind=MARK, description=description, health=health)
        made.alone.executor = executor
        self._add(made, executor)
        return made


def _checked(name: str, terms: dict[str, Any]) -> dict[str, Any]:
    below, version = terms["review_below"], terms["version"]
    if below is not None and (isinstance(below, bool) or not isinstance(below, int | float) or not 0 <= below <= 1):
        raise InvalidDefinition(f"Transformation {name}: review_below is {shown(below)}; give a number from 0 to 1.")
    if type(version) is not int or not 1 <= version <= MAX_VERSION:
        raise InvalidDefinition(f"Transformation {name} has version {shown(version)}: {VERSIONS}.")
    return terms
