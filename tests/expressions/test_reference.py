"""The reference page says what the table of functions says."""

from pathlib import Path

import pytest

from stepfast.workflows.expressions.functions import FUNCTIONS, Function
from stepfast.workflows.expressions.kinds import DENOTATIONS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "expressions.md"


def row(function: Function) -> str:
    forms: list[str] = []
    results: dict[str, None] = {}
    for overload in function.overloads:
        first, *rest = map(str, overload.parameters)
        called = f"{first}.{function.name}({', '.join(rest)})"
        forms.append(f"`{called if function.receiver else f'{function.name}({first})'}`")
        results[f"`{overload.result}`"] = None
    return f"| `{function.name}` | {', '.join(forms)} | {', '.join(results)} | {function.about} |"


@pytest.mark.parametrize("is_extension", [False, True])
def test_the_page_has_every_function_as_it_is_in_the_table(is_extension):
    standard, extensions = PAGE.read_text().split("## Functions that CEL does not have")
    lines = (extensions if is_extension else standard).splitlines()
    wanted = [row(function) for function in FUNCTIONS.values() if function.extension is is_extension]
    assert [line for line in lines if line in wanted] == wanted


def test_the_page_has_every_name_that_is_a_type():
    text = PAGE.read_text()
    assert [name for name in DENOTATIONS if "." not in name and f"`{name}`" not in text] == []
