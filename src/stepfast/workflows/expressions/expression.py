"""One expression: compiled once, checked and evaluated often."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import TracebackType
from typing import Any

from stepfast.kernel.errors import EvaluationFailed
from stepfast.kernel.texts import shown
from stepfast.workflows.expressions.budget import BUDGET, new_meter
from stepfast.workflows.expressions.checking import check_tree
from stepfast.workflows.expressions.compiling import FILE, Code, compile_tree
from stepfast.workflows.expressions.kinds import DENOTATIONS
from stepfast.workflows.expressions.parser import RESERVED, parse
from stepfast.workflows.expressions.problems import Exhausted, ExpressionProblem, Failed
from stepfast.workflows.expressions.references import Reference, is_path, references_of
from stepfast.workflows.expressions.tree import Node
from stepfast.workflows.expressions.types import Type
from stepfast.workflows.expressions.usage import check_usage

# How deep is too deep depends on how much of its stack Python has used; the limits of the parser are far below it.
DEEP = "the expression is nested too deeply for the place that it is used in"


def compile_expression(text: str, offset: int = 0) -> Expression:
    """An expression ready to be evaluated; `offset` is where it begins in the text that problems speak of."""
    try:
        tree = parse(text)
        check_usage(tree)
        return Expression(text, tree, offset)
    except ExpressionProblem as problem:
        raise problem.moved(offset) from None
    except RecursionError:
        raise ExpressionProblem(DEEP, offset, offset + len(text)) from None


class Expression:
    """What `compile_expression` makes; it never changes, and any number of threads may evaluate it."""

    def __init__(self, text: str, tree: Node, offset: int) -> None:
        self.text = text
        self.references: tuple[Reference, ...] = references_of(tree)
        self.is_path = is_path(tree)
        """Whether it only names a place in the scope, so that its value is one that the scope already had."""
        self._tree = tree
        self._offset = offset

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """The value in a scope; lists and maps in it may be the scope's own, so do not change them."""
        try:
            return self._quick[0](scope, [BUDGET])
        except Exhausted as failure:
            raise self._failed(failure, self._quick[1]) from None
        except (Failed, KeyError, TypeError, RecursionError):
            return self._evaluate_carefully(scope)

    def check(self, types: Mapping[str, Type]) -> tuple[Type, list[ExpressionProblem]]:
        """The type of the value in a scope of such types, and all that is wrong with the expression there."""
        found, problems = check_tree(self._tree, types)
        return found, [problem.moved(self._offset) for problem in problems]

    # Made when it is first needed: whoever only looks for faults evaluates nothing.
    @cached_property
    def _quick(self) -> tuple[Code, list[Node]]:
        return compile_tree(self._tree, careful=False)

    @cached_property
    def _careful(self) -> tuple[Code, list[Node]]:
        return compile_tree(self._tree, careful=True)

    def _evaluate_carefully(self, scope: Mapping[str, Any]) -> Any:
        try:
            code, _ = self._careful
            return code(scope, new_meter())
        except (Failed, Exhausted) as failure:
            raise self._failed(failure, self._careful[1]) from None
        except RecursionError:
            raise self.failed(DEEP) from None

    def _failed(self, failure: Exception, parts: list[Node]) -> EvaluationFailed:
        part = parts[_innermost_line(failure.__traceback__) - 1]
        return self.failed(str(failure), self.text[part.start : part.end])

    def failed(self, reason: str, part: str = "") -> EvaluationFailed:
        """The error that names the expression, the part and the reason."""
        place = f" at {shown(part)}" if part and part != self.text.strip() else ""
        end = "" if reason.endswith(("?", ".")) else "."
        return EvaluationFailed(f"The expression {shown(self.text)} failed{place}: {reason}{end}")


def _innermost_line(traceback: TracebackType | None) -> int:
    line = 1
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == FILE:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def is_name(text: str) -> bool:
    """Whether a variable of an expression may be called so."""
    return text.isascii() and text.isidentifier() and text not in RESERVED | DENOTATIONS.keys()
