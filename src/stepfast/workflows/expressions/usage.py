"""Faults that need no types: functions that do not exist, wrong numbers of arguments, patterns that are none."""

from __future__ import annotations

from stepfast.workflows.expressions.functions import FUNCTIONS, Function
from stepfast.workflows.expressions.matching import pattern_of
from stepfast.workflows.expressions.parser import MACROS
from stepfast.workflows.expressions.problems import ExpressionProblem, Failed, did_you_mean
from stepfast.workflows.expressions.tree import Call, MapLiteral, Node, constant_text, walk


def check_usage(tree: Node) -> None:
    """Raise the first such fault, if there is one."""
    for node in walk(tree):
        if isinstance(node, Call):
            _check_call(node)
        elif isinstance(node, MapLiteral):
            _check_keys(node)


def _check_call(call: Call) -> None:
    function = FUNCTIONS.get(call.function)
    if function is None:
        hint = did_you_mean(call.function, (*FUNCTIONS, *MACROS, "has"))
        raise ExpressionProblem(f"there is no function '{call.function}'", call.start, call.end, hint)
    if len(call.arguments) not in function.counts or not (function.receiver if call.receiver else function.free):
        raise ExpressionProblem(f"{call.function} is not called like that", call.start, call.end, _forms(function))
    if call.function == "matches":
        _check_pattern(call.arguments[1])


def _forms(function: Function) -> str:
    most = max(function.counts)
    optional = "" if len(function.counts) == 1 else "; what comes last may be left out"
    values = ["x", "y", "z", "w"][:most]
    if function.receiver:
        return f"write x.{function.name}({', '.join(values[1:])}){optional}"
    return f"write {function.name}({', '.join(values)}){optional}"


def _check_pattern(pattern: Node) -> None:
    text = constant_text(pattern)
    if text is None:
        return
    try:
        pattern_of(text)
    except Failed as failure:
        raise ExpressionProblem(str(failure), pattern.start, pattern.end) from None


def _check_keys(node: MapLiteral) -> None:
    seen: set[str] = set()
    for key, _ in node.entries:
        text = constant_text(key)
        if text is not None and text in seen:
            raise ExpressionProblem(f"the map has the key '{text}' twice", key.start, key.end)
        if text is not None:
            seen.add(text)
