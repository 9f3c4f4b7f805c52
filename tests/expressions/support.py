"""How the tests evaluate expressions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from stepfast.workflows.expressions import EvaluationFailed, ExpressionProblem, compile_expression
from stepfast.workflows.expressions.kinds import KINDS

# However busy the machine is, an example may take its time.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
THOROUGH = settings(UNTIMED, max_examples=400)


def value(text: str, /, **scope: Any) -> Any:
    return compile_expression(text).evaluate(scope)


def failure(text: str, /, **scope: Any) -> str:
    """Why the evaluation fails."""
    with pytest.raises(EvaluationFailed) as raised:
        value(text, **scope)
    return str(raised.value)


def problem(text: str) -> ExpressionProblem:
    """Why the text is no expression."""
    with pytest.raises(ExpressionProblem) as raised:
        compile_expression(text)
    return raised.value


def exactly(given: Any) -> Any:
    """A value together with its kind, as Python takes 1 for 1.0 and for true."""
    if isinstance(given, list):
        return [exactly(item) for item in given]
    if isinstance(given, dict):
        return {key: exactly(item) for key, item in given.items()}
    return KINDS[type(given)].name, "NaN" if given != given else given
