"""Values that a run will know: handles of them, to say where a step's inputs come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn

from typing_extensions import TypeVar

from stepfast.kernel.errors import InvalidDefinition

if TYPE_CHECKING:
    from stepfast.workflows.graphs.drafts import GraphStep

T = TypeVar("T", default=Any)

Key = str | int


class Value(Generic[T]):
    """What a run will know: `graph.input`, `stage.output`, and their parts: `.output.lines[0].price`."""

    __slots__ = ("_stepfast_path", "_stepfast_root", "_stepfast_step")

    def __init__(self, root: str, step: GraphStep[Any] | None = None, path: tuple[Key, ...] = ()) -> None:
        self._stepfast_root = root
        """A name of the scope; for a step what is asked of it: `output`, `skipped`, `failed`, `error`."""
        self._stepfast_step = step
        self._stepfast_path = path

    def __getattr__(self, name: str) -> Value[Any]:
        # Python asks every object for such names, to copy or to show it.
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: Key) -> Value[Any]:
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise InvalidDefinition(f"{self!r}[{key!r}]: a part is named by a text or a number.")
        return Value(self._stepfast_root, self._stepfast_step, (*self._stepfast_path, key))

    def __repr__(self) -> str:
        return told(self)

    __hash__ = object.__hash__

    def _unknown(self, *_: object) -> NoReturn:
        raise InvalidDefinition(
            f"{self!r} is not known before a run: it cannot be compared or looked through here. Write a lambda whose "
            f"parameters are the ids of the steps that it reads, as in `when=lambda parse: parse.risk > 0.4`."
        )

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __iter__ = __len__ = __contains__ = _unknown


def step_of(value: Value[Any]) -> GraphStep[Any] | None:
    """The step that a value is of; None: it is of the run."""
    return value._stepfast_step


def root_of(value: Value[Any]) -> str:
    """The name in the scope, or what is asked of a step."""
    return value._stepfast_root


def path_of(value: Value[Any]) -> tuple[Key, ...]:
    """The way from there to the part that is meant."""
    return value._stepfast_path


def told(value: Value[Any]) -> str:
    """A value for people: `parse.output.lines[0]`."""
    step = step_of(value)
    parts = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path_of(value))
    return (root_of(value) if step is None else f"{step.id}.{root_of(value)}") + parts
