"""Texts and values that somebody wrote to do harm."""

import contextlib
import inspect
import sys
import threading
from typing import Any

import pytest

from stepfast.workflows.expressions import EvaluationFailed, ExpressionProblem, compile_expression
from tests.expressions.support import failure, problem, value


@pytest.mark.parametrize(
    "written",
    [
        "().__class__",
        "().__class__.__bases__[0].__subclasses__()",
        "__import__('os').system('true')",
        "eval('1')",
        "lambda: 1",
        "[x for x in y]",
        "a := 1",
        "f'{a}'",
        "a; b",
        "a\\nb",
        "scope()",
        "meter()",
        "\U0001d4ea\U0001d4eb",
        "\u0430",
        "a\u200bb",
        "\ud800",
        "'\ud800'",
        "\x00",
        "'",
        "(" * 10_000 + "1" + ")" * 10_000,
        "[" * 10_000,
        "{" * 10_000,
        "-" * 9_000 + "1",
        "!" * 9_000 + "true",
        "a" + ".b" * 4_000,
        "a" + "[0]" * 3_000,
        "1" + "+1" * 4_000,
        "true ? 1 : " * 900 + "1",
        "1" * 1_000_000,
        "a" * 1_000_000,
        "'" + "a" * 1_000_000 + "'",
        "a.all(x, " * 200 + "true" + ")" * 200,
        "size(" * 500 + "1" + ")" * 500,
    ],
)
def test_a_text_that_is_no_expression_is_refused(written):
    assert problem(written).message


@pytest.mark.parametrize(
    "name", ["__class__", "__builtins__", "__import__", "scope", "meter", "type1", "x1", "v1", "given1"]
)
def test_no_name_reaches_anything_but_the_scope(name):
    assert "nothing is called" in failure(name)
    assert value(name, **{name: 5}) == 5


@pytest.mark.parametrize("name", ["scope", "meter", "x1", "v1", "lambda", "class", "None_", "type_"])
def test_a_macro_variable_of_any_name_is_only_a_variable(name):
    assert value(f"[1, 2].map({name}, {name} > 1 && y == 3)", y=3) == [False, True]


def test_the_code_has_no_builtins_of_python():
    expression = compile_expression("a.b == 1 && [1].all(x, x > 0)")
    assert expression._quick[0].__globals__["__builtins__"] == {}


def test_values_of_any_depth_are_compared():
    left: list[object] = []
    right: list[object] = []
    for _ in range(100_000):
        left, right = [left], [right]
    assert value("a == b", a=left, b=right) is True
    _take_apart(left)
    _take_apart(right)


def _take_apart(deep: list[Any]) -> None:
    # Python frees nested lists by recursion, save where it is spared that.
    while deep:
        deep = deep.pop()


def test_a_list_that_holds_itself_costs_too_much_to_compare():
    loop: list[object] = []
    loop.append(loop)
    other: list[object] = []
    other.append(other)
    assert "steps that an expression may take" in failure("a == b", a=loop, b=other)


def test_an_expression_as_deep_as_allowed_is_evaluated_from_deep_inside_a_program():
    text = "[1].exists(x, " * 40 + "x == 2 || missing" + ")" * 40

    def dig(levels: int) -> str:
        return dig(levels - 1) if levels else failure(text)

    assert "nothing is called 'missing'" in dig(sys.getrecursionlimit() // 3)


def test_an_expression_never_breaks_where_the_stack_is_used_up():
    text = "[1].exists(x, " * 40 + "x == 2" + ")" * 40
    compiled = compile_expression(text)

    def outcome() -> object:
        try:
            return compile_expression(text).evaluate({})
        except ExpressionProblem:
            with contextlib.suppress(EvaluationFailed):
                return compiled.evaluate({})
            return "refused"

    def dig(levels: int) -> object:
        return dig(levels - 1) if levels else outcome()

    room = sys.getrecursionlimit() - len(inspect.stack())
    outcomes = [dig(room - left) for left in range(50, room, 10)]
    assert outcomes[0] == "refused"
    assert set(outcomes) == {"refused", False}


def test_many_threads_may_evaluate_one_expression():
    expression = compile_expression("items.filter(i, i.n > low).map(i, i.n) + [missing.x == 1 || true]")
    wrong = []

    def evaluate(low: int) -> None:
        scope = {"items": [{"n": n} for n in range(20)], "low": low}
        for _ in range(200):
            if expression.evaluate(scope) != [*range(low + 1, 20), True]:
                wrong.append(low)

    threads = [threading.Thread(target=evaluate, args=(low,)) for low in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
