"""An executor: the body of a step, and what those who call it by name need to know of it."""

from __future__ import annotations

import copy
import inspect
from functools import cached_property
from types import MethodType
from typing import Any

from stepfast.kernel.errors import Invalid, InvalidDefinition
from stepfast.kernel.retry import Retry, check_retry
from stepfast.kernel.texts import check_text, shown
from stepfast.workflows.bodies import StepBody
from stepfast.workflows.codec import ValueCodec, form_of, hints_of
from stepfast.workflows.executors import schemas
from stepfast.workflows.executors.health import DEFAULT_TIMEOUT_S, Health, HealthCheck, ask, ask_apart
from stepfast.workflows.executors.schemas import CONFIG, Schema
from stepfast.workflows.limits import Limits, check_limit
from stepfast.workflows.steps import AsyncStep, StepAlone, SyncStep, check_name, name_for

STEP, CLASS, BUILTIN = "step", "class", "builtin"


class Executor:
    """A registered implementation that steps of graphs and templates call by name.

    What a step gives `with` are keyword arguments of its body; what it gives as `config` is the keyword `config`.
    """

    def __init__(
        self,
        body: StepBody,
        source: object,
        *,
        kind: str = STEP,
        description: str | None = None,
        origin: str | None = None,
        health: HealthCheck | None = None,
    ) -> None:
        self.body = body
        self.name = body.name
        self.source = source
        """What was registered: the function, the class, or the instance."""
        self.kind = kind
        self.description = _first_line(source, body) if description is None else description
        self.origin = origin or getattr(source, "__module__", None) or type(source).__module__
        self.health = health
        _check_config_type(self)

    @classmethod
    def of(
        cls,
        thing: object,
        name: str | None = None,
        description: str | None = None,
        health: HealthCheck | None = None,
        *,
        retry: Retry | None = None,
        origin: str | None = None,
        kind: str | None = None,
    ) -> Executor:
        """An executor of a step, a function, a class with `execute` (made without arguments), or an instance of one.

        `retry` holds where the thing has no policy of its own.
        """
        if isinstance(thing, Executor):
            return thing._altered(name, description, health, retry, origin)
        if isinstance(thing, AsyncStep | SyncStep):
            known = executor_of_step(thing.alone)
            return known._altered(name, description, health, retry, origin)
        alone = getattr(thing, "alone", None)
        if isinstance(alone, StepAlone):
            # A transformation, which is no step, and an executor all the same.
            return executor_of_step(alone)._altered(name, description, health, retry, origin)
        if inspect.isroutine(thing):
            usable = check_name("Executor", name_for(thing, name), thing)
            body = StepBody(thing, usable, retry, None)
            return cls(body, thing, description=description, origin=origin, health=health)
        return _of_class(cls, thing, name, description, health, retry, origin, kind)

    def _altered(
        self,
        name: str | None,
        description: str | None,
        health: HealthCheck | None,
        retry: Retry | None,
        origin: str | None,
    ) -> Executor:
        body = self.body
        retry = check_retry(f"executor {name or body.name!r}", retry) if body.retry is None else None
        name = body.name if name is None else name
        if name == body.name and (description, health, retry, origin) == (None, None, None, None):
            return self
        body = copy.copy(body)
        body.name = check_name("Executor", name, body.function)
        body.retry = body.retry or retry
        told = self.description if description is None else description
        return Executor(
            body,
            self.source,
            kind=self.kind,
            description=told,
            origin=origin or self.origin,
            health=health or self.health,
        )

    @property
    def domain(self) -> str | None:
        """What stands before the last dot of its name: `user` of `user.create`."""
        return self.name.rpartition(".")[0] or None

    @property
    def retry(self) -> Retry | None:
        """Its own policy; None: that of the worker."""
        return self.body.retry

    @property
    def limits(self) -> Limits:
        """How long it may take."""
        return self.body.limits

    @property
    def queue(self) -> str | None:
        """The queue of its own, in which each call of it is a run; None: it is executed where its step is."""
        return self.body.queue

    @cached_property
    def alone(self) -> StepAlone:
        """The executor as what a worker executes for a run of its own."""
        return StepAlone(self.body)

    @cached_property
    def inputs(self) -> Schema:
        """The JSON Schema of its parameters, without the config."""
        return schemas.inputs_schema(self.body.function)

    @cached_property
    def output(self) -> Schema | None:
        """The JSON Schema of what it returns; None where no hint says it."""
        return schemas.output_schema(self.body.function)

    @cached_property
    def config(self) -> Schema | None:
        """The JSON Schema of its config; None for one that takes none."""
        return schemas.schema_of_hint(self._config_hint) if self.takes_config else None

    @property
    def takes_config(self) -> bool:
        """Whether its body has a parameter for a config."""
        return self._config_parameter is not None

    @cached_property
    def _config_parameter(self) -> inspect.Parameter | None:
        return inspect.signature(self.body.function).parameters.get(CONFIG)

    @cached_property
    def _config_hint(self) -> Any:
        declared = _config_type(self.source)
        return hints_of(self.body.function).get(CONFIG, Any if declared is None else declared)

    def validate_config(self, given: Any) -> list[str]:
        """What is wrong with a config, each as `field: message`; first by its schema, then by the class's own check."""
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            return [f"{CONFIG}: it is {shown(given)}; give fields and values."]
        if not self.takes_config:
            return [f"{CONFIG}: executor {self.name} takes none."] if given else []
        if not self._is_passed(given):
            return []
        assert self.config is not None
        problems = list(schemas.config_problems(self._config_hint, self.config, given, f"executor {self.name}"))
        return problems or self._own_problems(given)

    def _own_problems(self, given: dict[str, Any]) -> list[str]:
        check = getattr(self.source, "validate_config", None)
        if check is None:
            return []
        try:
            # What its body would get, read by the same hint.
            hint = hints_of(self.body.function).get(CONFIG, Any)
            text = ValueCodec(Any, CONFIG).encode(given)
            owner = getattr(self.body.function, "__self__", None)
            answer = getattr(owner, "validate_config", check)(form_of(hint, CONFIG).read(text))
            return _as_problems(answer)
        except Exception as error:  # noqa: BLE001 - other people's code; whatever it raises is what it has to say
            return [f"{CONFIG}: {type(error).__name__}: {error}".rstrip(": ")]

    def _is_passed(self, given: dict[str, Any]) -> bool:
        """Whether the body is given a config: an empty one gives way to the default of the parameter."""
        parameter = self._config_parameter
        return parameter is not None and (bool(given) or parameter.default is parameter.empty)

    def arguments_of(self, given: dict[str, Any], config: dict[str, Any] | None = None) -> inspect.BoundArguments:
        """The typed arguments of its body, of what came as plain JSON: the inputs of a step, and its config."""
        if CONFIG in given and self.takes_config:
            raise Invalid(f"Executor {self.name} is given its config among its inputs. Give it as the step's config.")
        if problems := self.validate_config(config or {}):
            raise Invalid(f"Executor {self.name} is given a config that does not fit: {'; '.join(problems)}")
        passed = {CONFIG: config or {}} if self._is_passed(config or {}) else {}
        return self.body.arguments.from_json((), {**given, **passed})

    async def check_health(self, timeout_s: float = DEFAULT_TIMEOUT_S, *, apart: bool = False) -> Health:
        """Ask it whether it could do its work now; never raises, and never takes longer than told.

        `apart` asks in a thread and an event loop of its own, for checks that may block.
        """
        return await (ask_apart if apart else ask)(self.health, timeout_s)

    def is_of(self, source: object) -> bool:
        """Whether it is the executor of that very thing."""
        is_method = isinstance(source, MethodType) and isinstance(self.source, MethodType)
        return self.source is source or (is_method and self.source == source)

    def __repr__(self) -> str:
        return f"<Executor {self.name} of {self.origin}>"


def executor_of_step(alone: StepAlone) -> Executor:
    """The executor that a step is, the same each time."""
    known: Executor | None = alone.executor
    if known is None:
        known = alone.executor = Executor(alone.body, alone.body.function)
    return known


def describe_step(alone: StepAlone, description: str | None, health: HealthCheck | None) -> Executor:
    """Say of a step, once it is made, what its function cannot say."""
    source = alone.body.function
    alone.executor = known = Executor(alone.body, source, description=description, health=health)
    return known


def _of_class(
    cls: type[Executor],
    thing: Any,
    name: str | None,
    description: str | None,
    health: HealthCheck | None,
    retry: Retry | None,
    origin: str | None,
    kind: str | None,
) -> Executor:
    kind_of = thing if isinstance(thing, type) else type(thing)
    instance = _instance(thing) if isinstance(thing, type) else thing
    execute = getattr(instance, "execute", None)
    if not callable(execute):
        raise InvalidDefinition(
            f"{shown(thing)} is no executor: give a function, a step, or a class with a method `execute`."
        )
    if name is None:
        name = getattr(instance, "name", None) or kind_of.__name__
    limits = Limits(
        check_limit(f"The timeout of executor {name}", getattr(instance, "timeout", None)),
        check_limit(f"The total_timeout of executor {name}", getattr(instance, "total_timeout", None)),
    )
    queue = getattr(instance, "queue", None)
    usable = check_name("Executor", name, execute)
    queue = None if queue is None else check_text("The queue of an executor", queue)
    body = StepBody(execute, usable, getattr(instance, "retry", None) or retry, None, queue, limits)
    told = getattr(instance, "description", None) if description is None else description
    check = health or getattr(instance, "health", None)
    return cls(body, thing, kind=kind or CLASS, description=told, origin=origin, health=check)


def _instance(kind: type) -> Any:
    try:
        return kind()
    except Exception as error:
        remedy = "Register an instance of it instead."
        raise InvalidDefinition(
            f"Executor class {kind.__qualname__} cannot be made without arguments: {error}. {remedy}"
        ) from error


def _first_line(source: object, body: StepBody) -> str:
    # The docstring of an instance is that of its class; one without takes that of `execute`.
    text = inspect.getdoc(source) or inspect.getdoc(body.function) or ""
    return text.strip().partition("\n")[0].strip()


def _config_type(source: object) -> Any:
    """The type that a class declares for its config, if it does."""
    declared = getattr(source if isinstance(source, type) else type(source), CONFIG, None)
    return declared if isinstance(declared, type) else None


def _check_config_type(executor: Executor) -> None:
    declared = _config_type(executor.source)
    if declared is not None and not executor.takes_config:
        raise InvalidDefinition(
            f"Executor {executor.name} declares {declared.__name__} as its config, and its `execute` takes none. "
            f"Give it a parameter: `config: {declared.__name__}`."
        )


def _as_problems(answer: Any) -> list[str]:
    """What a class's own check has to say: nothing, a text, or several."""
    if answer is None or answer is True:
        return []
    if answer is False:
        return [f"{CONFIG}: it does not fit"]
    return [answer] if isinstance(answer, str) else [str(each) for each in answer]


def two_of_one_name(first: Executor, second: Executor) -> InvalidDefinition:
    """Why a second executor of a name is refused."""
    return InvalidDefinition(
        f"Two executors are called {first.name}: {first.alone.place} and {second.alone.place}. Give one of them "
        f"another name, or unregister the first: `app.executors.unregister({first.name!r})`."
    )
