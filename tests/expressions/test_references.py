"""What an expression asks its scope for."""

import pytest

from stepfast.workflows.expressions import compile_expression


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("1 + 1", []),
        ("a", ["a"]),
        ("steps.parse.output.clauses", ["steps.parse.output.clauses"]),
        ("steps['parse']['output'].n", ["steps.parse.output.n"]),
        ("steps.parse.output[0].n", ["steps.parse.output"]),
        ("steps[inputs.name].output", ["steps", "inputs.name"]),
        ("steps.a.output.size() > inputs.n", ["steps.a.output", "inputs.n"]),
        ("has(steps.a.output)", ["steps.a.output"]),
        ("a.b + a.b + a.c", ["a.b", "a.c"]),
        ("items.map(i, i.n + limit.x)", ["items", "limit.x"]),
        ("items.map(i, i.all(j, i == j && k))", ["items", "k"]),
        ("items.map(i, .i.x)", ["items", "i.x"]),
        ("i.x == 1 || items.exists(i, i.x == 1)", ["i.x", "items"]),
        ("items.map(i, i > 0, i + n)", ["items", "n"]),
        ("type(x) == int", ["x"]),
        ("type(x) == google.protobuf.Timestamp", ["x"]),
        ("{'a': b}[c]", ["b", "c"]),
        ("[a, b.c].size()", ["a", "b.c"]),
        ("a ? b : c", ["a", "b", "c"]),
    ],
)
def test_references_are_the_longest_paths_that_are_written_out(written, found):
    assert [".".join(reference) for reference in compile_expression(written).references] == found
