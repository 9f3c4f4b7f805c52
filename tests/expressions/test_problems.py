"""What problems and failures tell."""

import copy
import pickle

import pytest

from stepfast.kernel.errors import StepfastError
from stepfast.workflows.expressions import STRING, EvaluationFailed, ExpressionProblem, compile_expression, is_name
from tests.expressions.support import failure, problem


def test_a_problem_says_where_it_stands_in_the_longer_text():
    with pytest.raises(ExpressionProblem) as raised:
        compile_expression("1 +* 2", offset=100)
    assert (raised.value.start, raised.value.end) == (103, 104)


def test_a_problem_of_types_says_where_it_stands_in_the_longer_text():
    _, problems = compile_expression("1 + a", offset=100).check({"a": STRING})
    assert [(each.start, each.end) for each in problems] == [(100, 105)]


def test_a_problem_reads_as_its_message_and_hint():
    assert str(problem("a and b")) == "the end is expected, but here stands 'and' (write &&)"


def test_a_problem_can_be_copied_and_pickled():
    found = problem("a and b")
    assert str(copy.copy(found)) == str(pickle.loads(pickle.dumps(found))) == str(found)


def test_a_failure_names_the_expression_the_part_and_the_reason():
    assert failure("1 + a.b.c * 2", a={"b": {}}) == (
        "The expression '1 + a.b.c * 2' failed at 'a.b.c': no such key: 'c'; the map is empty."
    )


def test_a_failure_shows_only_the_beginning_of_a_long_expression():
    assert len(failure("1 / 0 + " + " + ".join(["1"] * 90))) < 200


def test_a_failure_shows_no_more_than_the_beginning_of_a_key():
    assert len(failure("a[k]", a={"x" * 5_000: 1}, k="y" * 5_000)) < 500


def test_a_failure_is_an_error_with_a_code():
    assert issubclass(EvaluationFailed, StepfastError)
    assert EvaluationFailed.code == "E-VAL-005"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("clause", True),
        ("_x1", True),
        ("in", False),
        ("true", False),
        ("a-b", False),
        ("ü", False),
        ("", False),
        ("1a", False),
    ],
)
def test_a_name_that_an_expression_can_use_is_told_from_others(text, answer):
    assert is_name(text) is answer


@pytest.mark.parametrize("text", ["int", "type", "string", "and", "not"])
def test_the_name_of_a_type_or_a_word_with_another_meaning_is_none(text):
    assert not is_name(text)
