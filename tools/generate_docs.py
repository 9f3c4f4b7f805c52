"""Write the reference pages that are made from the code, so that they cannot say anything else than it does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from stepfast import log, settings
from stepfast.kernel import errors, states

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
NOTICE = "<!-- Made from the code by `make docs`; change the code, not this page. -->"

REMEDIES = {
    "E-GEN-001": "Read the message; it names the thing, its state and the next step.",
    "E-RUN-001": "Check the id and the tenant; `stepfast runs list` shows the runs there are.",
    "E-RUN-002": "Nothing to do: the present owner goes on with the run. If it happens often, give the lease more time "
    "(`STEPFAST_LEASE`).",
    "E-RUN-003": "Look at the run's state; [states](states.md) shows which moves it allows.",
    "E-RUN-004": "Start a worker with the code that began the run, or give the changed workflow a new version.",
    "E-RUN-007": "Read the cause, mend it, then retry the run.",
    "E-RUN-008": "Rerun the run if it was cancelled by mistake.",
    "E-STEP-001": "Read the type and traceback that it carries; they are those of the original error.",
    "E-STEP-002": "Find out what the step waited for, or allow more with `timeout=` and `total_timeout=`.",
    "E-STEP-003": "Check the name; the run's own list of steps shows those that exist.",
    "E-WAIT-001": "Catch `WaitTimeout` in the workflow and decide what then, or wait longer.",
    "E-IDEM-001": "Use a new key for a new request, or send the first body again.",
    "E-IDEM-002": "Send the same request again a little later.",
    "E-VAL-001": "Correct the value that the message names.",
    "E-VAL-002": "Correct the definition that the message names; all its faults are listed at once.",
    "E-VAL-003": "Return something that JSON can hold, or describe the value by a type hint.",
    "E-VAL-004": "Use the form that the message names.",
    "E-STORE-001": "Check that the database runs and can be reached, then send the request again.",
    "E-STORE-002": "Bring the schema up to date with `stepfast migrate`, or upgrade this program.",
    "E-STORE-003": "Make room, correct the permissions or move the file to a local disk, as the message says.",
    "E-STORE-004": "Look for the value that the message names; sent alone, every other row of the batch is saved.",
}


def errors_page() -> str:
    """Every code with its class, meaning and remedy."""
    classes = sorted(_error_classes(errors.StepfastError), key=lambda error: (error.code, error.__name__))
    rows = [(f"`{error.code}`", f"`{error.__name__}`", _meaning(error), _remedy(error.code)) for error in classes]
    return _page(
        "Error codes",
        "Every error derives from `StepfastError` and carries its code in `.code`. Codes are added, never changed.",
        _table(("code", "class", "meaning", "remedy"), rows),
    )


def states_page() -> str:
    """The states of runs and steps, and the moves between those of runs."""
    moves = [
        (f"`{move.name}`", _listed(move.sources), _listed(move.targets), move.meaning) for move in states.RUN_MOVES
    ]
    return _page(
        "States",
        "A run makes only the moves below; any other is refused with E-RUN-003 and changes nothing.",
        "## Runs",
        _diagram(states.RUN_MOVES),
        f"These are final, until a move opens a new generation: {_listed(states.ENDED)}.",
        _table(("move", "from", "to", "when"), moves),
        "## Steps",
        f"A step is one of {_listed(states.StepState)}.",
    )


def settings_page() -> str:
    """Every setting with its names, what it allows, its default and its meaning."""
    rows = [
        (_setting_names(setting), f"`{setting.key}`", setting.meaning, setting.kind.allowed, _default(setting))
        for setting in (*settings.SETTINGS, settings.QUEUE_CONCURRENCY)
    ]
    return _page(
        "Settings",
        "An option of the command line or an argument in Python beats a variable with the prefix `STEPFAST_`, which "
        "beats the plain variable, which beats `[tool.stepfast]` in the nearest pyproject.toml, which beats the "
        "default. A value that does not fit stops the program at its start with E-VAL-001; all such values are named "
        "at once. A variable `STEPFAST_…` that nothing reads is told of in the log, with the nearest name there is.",
        _table(("variable", "key in pyproject.toml", "meaning", "allowed", "default"), rows),
    )


def _setting_names(setting: settings.Setting) -> str:
    plain = f" or `{setting.name.removeprefix(settings.PREFIX)}`" if setting.plain else ""
    return f"`{setting.name}`{plain}"


def _default(setting: settings.Setting) -> str:
    return f"`{setting.default}`" if setting.default else "none"


def log_page() -> str:
    """Every event of the engine's own log."""
    rows = [(f"`{name}`", event.level, event.meaning) for name, event in sorted(log.EVENTS.items())]
    return _page(
        "The engine's log",
        "The engine writes named events with fields through the standard `logging` module, to loggers below "
        "`stepfast`; an application configures them as any other. Commands write them to stderr, from the level and in "
        "the form that `STEPFAST_LOG` names: `info` (the default), `debug`, `warning`, `error`, with `,json` for one "
        "JSON object a line. Lines about a run carry `run_id`, `tenant` and `worker_id`. An event whose cause is not "
        "known comes with a traceback, at level error.",
        _table(("event", "level", "meaning"), rows),
    )


GENERATORS: dict[Path, Callable[[], str]] = {
    REFERENCE / "errors.md": errors_page,
    REFERENCE / "log.md": log_page,
    REFERENCE / "settings.md": settings_page,
    REFERENCE / "states.md": states_page,
}


def main() -> None:
    for path, generate in GENERATORS.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(generate())


def _error_classes(root: type[errors.StepfastError]) -> Iterator[type[errors.StepfastError]]:
    # Only those of the one module, so that the page does not depend on what else was imported.
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _error_classes(child)


def _meaning(error: type[errors.StepfastError]) -> str:
    if not error.__doc__:
        raise SystemExit(f"{error.__module__}.{error.__name__} has no docstring; say in one line what it means.")
    return error.__doc__.strip().splitlines()[0]


def _remedy(code: str) -> str:
    if code not in REMEDIES:
        raise SystemExit(f"{code} has no remedy; add one to REMEDIES in tools/generate_docs.py.")
    return REMEDIES[code]


def _diagram(moves: Iterable[states.Move]) -> str:
    names = defaultdict(list)
    for move in moves:
        for source, target in _edges(move):
            names[source, target].append(move.name)
    arrows = [f"    {source} --> {target}: {', '.join(names[source, target])}" for source, target in names]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> pending", *arrows, "```"])


def _edges(move: states.Move) -> list[tuple[states.RunState, states.RunState]]:
    # A move between any two of the same states would cover the drawing with arrows; the table has it.
    if len(move.sources) > 1 and move.sources == move.targets:
        return []
    return [(source, target) for source in _ordered(move.sources) for target in _ordered(move.targets)]


def _ordered(members: Iterable[states.RunState]) -> list[states.RunState]:
    return sorted(members, key=list(states.RunState).index)


def _listed(members: Iterable[states.RunState] | Iterable[states.StepState]) -> str:
    given = set(members)
    kind = type(next(iter(given)))
    return ", ".join(f"`{member}`" for member in kind if member in given)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *parts]) + "\n"


if __name__ == "__main__":
    main()
