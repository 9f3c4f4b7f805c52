"""What an expression may cost."""

import pytest

from stepfast.workflows.expressions import EvaluationFailed, budget, compile_expression, compile_value, macros
from tests.expressions.support import failure, value

MANY = list(range(10_000))
REASON = "it costs more than the 1,000,000 steps that an expression may take"


def test_a_list_of_ten_thousand_is_walked_several_times():
    assert value("m.filter(x, x % 2 == 0).map(x, x + 1).exists(x, x == 9999)", m=MANY)


@pytest.mark.parametrize(
    "written",
    [
        "m.exists(x, m.exists(y, x + y == -1))",
        "m.map(x, m.map(y, m.map(z, 1)))",
        "m.all(x, m.all(y, 1 / 0 == 1))",
        "m.filter(x, m.distinct() == m)",
        "m.map(x, m.sort())",
        "m.map(x, m == m)",
        "m.map(x, m.sum())",
        "m.map(x, x in m)",
        "m.map(x, m + m)",
        "m.map(x, t + t)",
        "m.map(x, t.matches('a+b'))",
        "m.map(x, t.replace('', t))",
        "m.map(x, t + 'b' < t + 'c')",
        "m.exists(x, t.matches('a{1000}{' + string(x)))",
        "m.exists(x, 'a'.matches('(a{900}){2}' + string(x)))",
        "m.map(x, m.map(y, t).join())",
        "m.map(x, t.split(''))",
        "t.replace('', t).replace('', t)",
    ],
)
def test_an_expression_that_costs_too_much_is_stopped(written):
    assert REASON in failure(written, m=MANY, t="a" * 10_000)


def test_a_text_that_doubles_again_and_again_is_stopped():
    assert REASON in failure("[t]" + ".map(x, x + x)" * 40, t="ab")


def test_a_list_that_doubles_again_and_again_is_stopped_before_it_is_json():
    binding = compile_value("${ [1]" + ".map(x, [x, x])" * 60 + " }")
    with pytest.raises(EvaluationFailed, match="steps that an expression may take"):
        binding.evaluate({})


def test_a_budget_that_is_used_up_is_no_failure_that_another_side_makes_good():
    assert REASON in failure("m.exists(x, m.exists(y, x + y == -1)) || true", m=MANY)


def test_each_evaluation_has_a_budget_of_its_own():
    expression = compile_expression("m.map(x, x + 1).size()")
    assert [expression.evaluate({"m": MANY}) for _ in range(50)] == [10_000] * 50


def test_without_a_meter_the_same_expression_goes_on(monkeypatch):
    monkeypatch.setattr(macros, "spend", lambda meter, cost: None)
    few = list(range(1_100))
    assert value("m.exists(x, m.exists(y, x + y == -1))", m=few) is False
    monkeypatch.undo()
    assert budget.BUDGET < 1_100 * 1_100
    assert REASON in failure("m.exists(x, m.exists(y, x + y == -1))", m=few)
