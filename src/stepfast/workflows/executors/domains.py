"""Domains: executors whose names begin alike, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import InvalidDefinition
from stepfast.kernel.retry import Retry, check_retry
from stepfast.workflows.bodies import Key
from stepfast.workflows.executors.executor import Executor, describe_step, two_of_one_name
from stepfast.workflows.executors.health import HealthCheck
from stepfast.workflows.limits import Limits, check_limit
from stepfast.workflows.registry import DEFINED_STEPS
from stepfast.workflows.steps import AsyncStep, StepDecorator, SyncStep, check_name, name_for

if TYPE_CHECKING:
    from stepfast.workflows.transformations.calling import Transformation, TransformationDecorator

P = ParamSpec("P")
T = TypeVar("T")


class Home(Protocol):
    """Where the executors of a domain are registered."""

    def add(self, executor: Executor) -> Executor: ...


class Domain:
    """Executors under one name: `@user.step("create")` of `user = Domain("user")` is `user.create`.

    Its steps are known to every app of the process, as all steps are; those of `app.executors.domain(...)` to that app
    alone. `retry` holds for those that have no policy of their own.
    """

    def __init__(self, name: str, *, retry: Retry | None = None, home: Home | None = None) -> None:
        self.name = check_name("Domain", name, Domain)
        self.retry = check_retry(f"domain {name!r}", retry)
        self._home = home
        self._executors: dict[str, Executor] = {}

    @overload
    def step(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> AsyncStep[P, T]: ...

    @overload
    def step(self, function: Callable[P, T], /) -> SyncStep[P, T]: ...

    @overload
    def step(
        self,
        name: str | None = None,
        /,
        *,
        description: str | None = None,
        health: HealthCheck | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        total_timeout: Duration | None = None,
        key: Key | None = None,
        queue: str | None = None,
    ) -> DomainStep: ...

    def step(
        self,
        name: Any = None,
        /,
        *,
        description: str | None = None,
        health: HealthCheck | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        total_timeout: Duration | None = None,
        key: Key | None = None,
        queue: str | None = None,
    ) -> Any:
        """Make a function a step of this domain; takes what `step` takes, and is called like any other step."""
        limits = Limits(
            check_limit("The timeout of a step", timeout), check_limit("The total_timeout of a step", total_timeout)
        )
        function, name = (name, None) if callable(name) else (None, name)
        decorator = DomainStep(self, name, description, health, (retry or self.retry, limits, key, queue))
        return decorator if function is None else decorator(function)

    def transformation(
        self,
        name: str | None = None,
        /,
        *,
        inputs: str | Iterable[str] | Mapping[str, str | Iterable[str]] = "*/*",
        outputs: str | Iterable[str] = "*/*",
        review_below: float | None = None,
        version: int = 1,
        description: str | None = None,
        health: HealthCheck | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        total_timeout: Duration | None = None,
        queue: str | None = None,
    ) -> TransformationDecorator:
        """Make a function of assets (`Source`) that returns assets (`Derived`) a transformation of this domain.

        Each use is a run of its own. `inputs` and `outputs` are media types, or kinds like `image/*`; of inputs also by
        the names of parameters. With a confidence below `review_below` a person looks before the outputs count.
        """
        # Seldom needed, and it brings reviews along.
        from stepfast.workflows.transformations.calling import TransformationDecorator

        limits = Limits(
            check_limit("The timeout of a transformation", timeout),
            check_limit("The total_timeout of a transformation", total_timeout),
        )
        terms = {"version": version, "inputs": inputs, "outputs": outputs, "review_below": review_below}
        options, told = (retry or self.retry, limits, queue), (description, health)
        return TransformationDecorator(self.full_name, self._add_transformation, name, terms, options, told)

    def register(
        self,
        thing: object,
        name: str | None = None,
        description: str | None = None,
        *,
        health: HealthCheck | None = None,
    ) -> Executor:
        """Make a function, a step, a class with `execute` or an instance of one an executor of this domain."""
        plain = own_name(thing) if name is None else name
        return self._add(Executor.of(thing, self.full_name(plain), description, health, retry=self.retry))

    def list(self) -> list[Executor]:
        """Its executors, by name."""
        return [self._executors[name] for name in sorted(self._executors)]

    def full_name(self, name: str) -> str:
        """The name of one of its executors."""
        if not name:
            raise InvalidDefinition(f"An executor of the domain {self.name!r} has an empty name: give it another.")
        return f"{self.name}.{name}"

    def _add(self, executor: Executor) -> Executor:
        known = self._executors.get(executor.name)
        # One from the same place replaces the earlier, as running a cell of a notebook again does.
        if known is not None and known.alone.place != executor.alone.place:
            raise two_of_one_name(known, executor)
        if self._home is not None:
            executor = self._home.add(executor)
        self._executors[executor.name] = executor
        return executor

    def _add_transformation(self, made: Transformation[..., Any], executor: Executor) -> None:
        if self._home is None:
            DEFINED_STEPS.add(made.alone)
        self._add(executor)

    def _add_step(self, wrapped: Any, description: str | None, health: HealthCheck | None) -> None:
        executor = describe_step(wrapped.alone, description, health)
        if self._home is None:
            DEFINED_STEPS.add(wrapped.alone)
        self._add(executor)


class DomainStep:
    """`@user.step("create")`."""

    def __init__(
        self,
        domain: Domain,
        name: str | None,
        description: str | None,
        health: HealthCheck | None,
        options: tuple[Retry | None, Limits, Key | None, str | None],
    ) -> None:
        self._domain, self._name, self._options = domain, name, options
        self._description, self._health = description, health

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]]) -> AsyncStep[P, T]: ...

    @overload
    def __call__(self, function: Callable[P, T]) -> SyncStep[P, T]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        name = self._domain.full_name(name_for(function, self._name))
        wrapped = StepDecorator(name, *self._options).wrap(function)
        self._domain._add_step(wrapped, self._description, self._health)
        return wrapped


def own_name(thing: object) -> str:
    """The name that a thing has by itself."""
    if isinstance(thing, Executor):
        return thing.name
    if isinstance(thing, AsyncStep | SyncStep):
        return thing.body.name
    name = getattr(thing, "name", None) or getattr(thing, "__name__", None) or type(thing).__name__
    return str(name)
