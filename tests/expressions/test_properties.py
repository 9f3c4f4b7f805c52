"""What holds for any text and any scope."""

import contextlib
import json
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stepfast.workflows.expressions import (
    DYN,
    EvaluationFailed,
    ExpressionProblem,
    InvalidBinding,
    ListType,
    MapType,
    RecordType,
    Type,
    UInt,
    UnionType,
    compile_expression,
    compile_value,
    type_of_value,
)
from stepfast.workflows.expressions.functions import FUNCTIONS
from stepfast.workflows.expressions.kinds import TypeValue
from stepfast.workflows.expressions.spans import Moment, Span
from tests.expressions.support import THOROUGH, UNTIMED

# fmt: off
WORDS = st.sampled_from([
    "a", "b", "a.b", "a.c", "x", "1", "2u", "0.5", "-1", "'a'", "b'c'", "true", "false", "null", "[", "]", "(", ")",
    "{", "}", ".", ",", ":", "?", "+", "-", "*", "/", "%", "!", "&&", "||", "==", "!=", "<", "<=", ">", ">=", "in",
    "has(", "size(", ".size()", ".map(x,", ".all(x,", ".exists(x,", ".filter(x,", ".exists_one(x,", ".matches('a+')",
    "int(", "string(", r"r'\d'", "duration('1s')", "timestamp(0)", ".getHours()", ".sum()", ".sort()", ".join()", "//",
    "type(", "[a]", "{'a':", "'''", '"', "\\",
])
ATOMS = st.sampled_from([
    "a", "b", "x", "1", "-1", "0", "2u", "0.5", "1.0", "'a'", "''", "b'a'", "true", "false", "null", "[]", "{}", "int",
    "timestamp(0)", "duration('1h')", "{'a': 1}", "[1, 2]", "['a']", "a.b", "9223372036854775807",
])
# fmt: on
TEXTS = st.lists(WORDS, max_size=15).map(" ".join) | st.text(max_size=30)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "a", "b", "1", "2030-01-01T00:00:00Z"])
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]) | st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
SCOPES = st.fixed_dictionaries({"a": JSON, "b": JSON, "x": JSON})


def _called(name: str, arguments: tuple[str, ...]) -> str:
    if FUNCTIONS[name].receiver:
        return f"({arguments[0]}).{name}({', '.join(arguments[1:])})"
    return f"{name}({', '.join(arguments)})"


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||"])
    macro = st.sampled_from(["all", "exists", "exists_one", "map", "filter"])
    calls = [
        st.tuples(*[inner] * count).map(partial(_called, name))
        for name, function in FUNCTIONS.items()
        for count in function.counts
    ]
    return st.one_of(
        st.tuples(inner, binary, inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, macro, inner).map(lambda parts: f"({parts[0]}).{parts[1]}(x, {parts[2]})"),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]})[{parts[1]}]"),
        st.tuples(inner, inner).map(lambda parts: f"[{parts[0]}, {parts[1]}]"),
        st.tuples(inner, inner).map(lambda parts: f"{{{parts[0]}: {parts[1]}}}"),
        st.tuples(st.sampled_from("!-"), inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
        inner.map(lambda part: f"({part}).a"),
        inner.map(lambda part: f"has(({part}).a)"),
        st.one_of(calls),
    )


EXPRESSIONS = st.recursive(ATOMS, _larger, max_leaves=8)


@UNTIMED
@given(TEXTS)
def test_any_text_is_an_expression_or_a_problem_within_it(text):
    problem = problem_of(text)
    assert problem is None or 0 <= problem.start <= problem.end <= len(text)


def problem_of(text: str) -> ExpressionProblem | None:
    try:
        compile_expression(text)
    except ExpressionProblem as problem:
        return problem
    return None


@UNTIMED
@given(TEXTS, JSON)
def test_any_value_is_a_template_or_has_problems(text, value):
    with contextlib.suppress(InvalidBinding):
        compile_value({"a": [f"{text}${{{text}}}", value]})


@THOROUGH
@given(EXPRESSIONS, SCOPES)
def test_any_expression_has_a_value_or_fails_with_a_reason(text, scope):
    problem = problem_of(text)
    if problem is not None:
        assert "pattern" in problem.message or "twice" in problem.message
        return
    with contextlib.suppress(EvaluationFailed):
        compile_expression(text).evaluate(scope)


@THOROUGH
@given(EXPRESSIONS, SCOPES)
def test_a_value_is_of_the_type_that_was_foretold(text, scope):
    with contextlib.suppress(EvaluationFailed, ExpressionProblem):
        expression = compile_expression(text)
        foretold, _ = expression.check({name: type_of_value(value) for name, value in scope.items()})
        assert fits(expression.evaluate(scope), foretold), str(foretold)


@THOROUGH
@given(EXPRESSIONS, SCOPES)
def test_a_problem_of_types_is_never_one_of_an_expression_that_works(text, scope):
    with contextlib.suppress(EvaluationFailed, ExpressionProblem):
        expression = compile_expression(f"[{text}]")
        _, problems = expression.check({name: type_of_value(value) for name, value in scope.items()})
        worked = expression.evaluate(scope)
        # What lies on a branch that is not taken, or in a walk over nothing, is told all the same.
        if problems and not any(sign in text for sign in ("?", "&&", "||", "(x,", "has(")):
            raise AssertionError((worked, [str(problem) for problem in problems]))


@UNTIMED
@given(EXPRESSIONS, SCOPES)
def test_the_quick_and_the_careful_code_agree(text, scope):
    with contextlib.suppress(EvaluationFailed, ExpressionProblem):
        expression = compile_expression(text)
        quick = expression.evaluate(scope)
        assert repr(expression._evaluate_carefully(scope)) == repr(quick)


@UNTIMED
@given(EXPRESSIONS, SCOPES)
def test_what_a_template_gives_is_json(text, scope):
    with contextlib.suppress(EvaluationFailed, InvalidBinding):
        given_back = compile_value({"a": f"${{ [{text}] }}"}).evaluate(scope)
        json.dumps(given_back, allow_nan=False)


CLASSES: dict[str, type] = {
    "null": type(None),
    "bool": bool,
    "int": int,
    "uint": UInt,
    "double": float,
    "string": str,
    "bytes": bytes,
    "timestamp": Moment,
    "duration": Span,
    "type": TypeValue,
}


def fits(value: Any, wanted: Type) -> bool:
    if wanted == DYN:
        return True
    match wanted:
        case UnionType():
            return any(fits(value, member) for member in wanted.members)
        case ListType():
            return isinstance(value, list) and all(fits(item, wanted.item) for item in value)
        case MapType():
            return isinstance(value, dict) and all(
                fits(key, wanted.key) and fits(item, wanted.value) for key, item in value.items()
            )
        case RecordType():
            known = isinstance(value, dict) and (wanted.open or value.keys() <= wanted.fields.keys())
            return known and all(fits(item, wanted.fields.get(key, DYN)) for key, item in value.items())
        case _:
            return type(value) is CLASSES[str(wanted)]
