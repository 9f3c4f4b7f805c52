"""Templates that mean harm, or no sense at all: each is refused in our own words, and soon."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from stepfast.workflows.templates import loading, models, profile
from stepfast.workflows.templates.loading import Template, load_template
from stepfast.workflows.templates.problems import MAX_PROBLEMS, TemplateInvalid
from tests.templates.writing import HEAD, Given, problems, told, value_of


def outcome(given: Given) -> Template | TemplateInvalid:
    """What becomes of it; anything but a template or its faults is raised here."""
    try:
        return load_template(given)
    except TemplateInvalid as invalid:
        str(invalid)
        return invalid


def of_input(schema: str, default: str) -> str:
    return f"{HEAD}inputs: {{a: {{schema: {schema}, default: {default}}}}}\nsteps: [{{id: a, set: 1}}]"


BOMBS = {
    "laughs": "a: &a [x, x]\n"
    + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)),
    "an alias of itself": "a: &a [*a]",
    "a map in itself": "a: &a {b: *a}",
    "an object of Python": "a: !!python/object/apply:os.system ['echo pwned']",
    "a name of Python": "a: !!python/name:os.system",
    "a merge of many": "a: {<<: [{b: 1}, {c: 2}]}",
    "a million brackets": "[" * 500_000,
    "a million braces": "{" * 500_000,
    "a million dashes": "- " * 400_000,
    "a million questions": "? " * 400_000,
    "a million pairs": "[" + "a: b, " * 150_000 + "]",
    "a long key": "a" * 900_000 + ": 1",
    "a long key in quotes": '"' + "a" * 900_000 + '": 1',
    "a long text": f"{HEAD}steps: [{{id: a, set: '{'x' * 900_000}'}}]",
    "a long number": f"a: {'9' * 900_000}",
    "a long float": f"a: 1e{'9' * 900_000}",
    "a long name": f"stepfast: 1\nworkflow: {'x' * 900_000}\nsteps: [{{id: a, set: 1}}]",
    "a long id": f"{HEAD}steps: [{{id: {'x' * 900_000}, set: 1}}]",
    "many unknown keys": HEAD + "".join(f"k{n}: 1\n" for n in range(20_000)),
    "many steps that need nothing that is there": HEAD
    + "steps:\n"
    + "".join(f"- {{id: s{n}, set: 1, needs: [t{n}]}}\n" for n in range(3_000)),
    "many equal ids": HEAD + "steps:\n" + "- {id: a, set: 1}\n" * 3_000,
    "steps in steps": HEAD + "steps: " + "[{id: a, do: " * 20 + "[{id: b, set: 1}]" + "}]" * 20,
    "a deep schema": of_input("{items: " * 50 + "true" + "}" * 50, "[" * 50 + "]" * 50),
    "a schema that refers to itself": of_input("{$ref: '#'}", "1"),
    "a schema from elsewhere": of_input("{$ref: 'http://127.0.0.1:1/x'}", "1"),
    "a pattern that is none": of_input("{pattern: '('}", "x"),
    "an expression of brackets": f"{HEAD}steps: [{{id: a, set: '${{ {'(' * 100_000} }}'}}]",
    "an expression of a million words": f"{HEAD}steps: [{{id: a, set: '${{ {'1+' * 400_000}1 }}'}}]",
    "a million expressions": f"{HEAD}steps: [{{id: a, set: '{'${1}' * 200_000}'}}]",
    "a pattern that goes back for ever": of_input("{pattern: '^(a+)+$'}", "a" * 60 + "!"),
    "a pattern that looks ahead": of_input("{pattern: '^(?=(a+)+$)'}", "a" * 60 + "!"),
    "names of Python": f"{HEAD}steps: [{{id: a, set: '${{ inputs.__class__.__bases__ }}'}}]",
    "an id for terminals": f'{HEAD}steps: [{{id: "\\e[31m", set: 1}}]',
    "a key for terminals": f'{HEAD}"\\e[31m": 1\nsteps: [{{id: a, set: 1}}]',
}


HARMLESS = {"a long text", "a deep schema"}
"""Large, but good."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_few_words(name):
    found = outcome(BOMBS[name])
    assert isinstance(found, Template) is (name in HARMLESS)
    lines = str(found).splitlines() if isinstance(found, TemplateInvalid) else []
    assert max(map(len, lines), default=0) < 1_500
    assert len(lines) <= MAX_PROBLEMS + 1


def test_a_huge_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    file = tmp_path / "huge.yaml"
    with file.open("wb") as opened:
        opened.truncate(100_000_000)
    monkeypatch.setattr(loading, "read_text", None)
    (line,) = map(str, problems(file))
    assert line == (
        f"{file}: /: the template has 100,000,000 bytes; allowed are 1,000,000 "
        "(Split it into several workflows that run each other)"
    )


def test_a_file_that_has_no_end_is_refused():
    assert "allowed are 1,000,000" in told(Path("/dev/zero"))[0]


@pytest.mark.parametrize("given", [Path("/no/such/file.yaml"), "no-such-file.yaml", Path("/"), Path("/tmp/\0")])
def test_a_file_that_cannot_be_read_is_a_fault(given):
    (line,) = told(given)
    assert "the file cannot be read" in line


def test_a_file_that_is_no_text_is_a_fault_with_its_place(tmp_path):
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"stepfast: 1\nworkflow: gr\xf6\xdfe\n")
    assert str(problems(file)[0]) == f"{file}:2:13: /: the file is not UTF-8 (Save it as UTF-8)"


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    file = tmp_path / "flow.json"
    file.write_bytes(b'\xef\xbb\xbf{"stepfast": 1, "workflow": "w", "steps": [{"id": "a", "set": "\\ud83d\\ude00"}]}')
    assert value_of(load_template(str(file))) == "😀"


@pytest.mark.parametrize("size", [profile.MAX_BYTES, profile.MAX_BYTES + 1])
def test_the_limit_of_the_size_is_what_is_said(size):
    text = f"{HEAD}steps: [{{id: a, set: 1}}]\n# "
    text += "x" * (size - len(text))
    assert isinstance(outcome(text), Template) is (size == profile.MAX_BYTES)


@settings(max_examples=200, deadline=None)
@drawn(st.text())
def test_any_text_is_a_template_or_has_faults(text):
    outcome(text)


@settings(max_examples=200, deadline=None)
@drawn(st.binary())
def test_any_bytes_are_a_template_or_have_faults(raw):
    outcome(raw)


PARTS = [part for part in vars(models).values() if isinstance(part, type) and issubclass(part, models.Part)]
ALPHABET = st.text(st.sampled_from("ab:-[]{}'\"|>&*!%@#,? \n\t${}.()=+1\\<" + string.ascii_lowercase[:5]), max_size=60)


@settings(max_examples=200, deadline=None)
@drawn(ALPHABET)
def test_any_text_of_signs_behind_a_good_head_is_a_template_or_has_faults(text):
    outcome(f"{HEAD}steps:\n- id: a\n  set: {text}\n")


KEYS = sorted({"x-y", "other"}.union(*(part.keys() for part in PARTS)))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 10**20)
    | st.floats()
    | st.sampled_from(
        ["a", "b", "all", "5m", "90%", "${ inputs.a }", "${ steps.a.output }", "${ 1 + }", "x ${ item } y", ""]
    )
    | st.text(max_size=5)
)
DATA = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@drawn(st.dictionaries(st.sampled_from(KEYS), DATA, max_size=6))
def test_any_data_is_a_template_or_has_faults(data):
    outcome({"stepfast": 1, "workflow": "w", "steps": [{"id": "a", "set": 1}], **data})


@settings(max_examples=100, deadline=None)
@drawn(st.lists(st.dictionaries(st.sampled_from(KEYS), DATA, max_size=6), max_size=4))
def test_any_steps_are_a_template_or_have_faults(steps):
    outcome({"stepfast": 1, "workflow": "w", "steps": steps, "inputs": {"a": {}}})


@settings(max_examples=100, deadline=None)
@drawn(st.dictionaries(st.sampled_from(KEYS), DATA, max_size=5))
def test_any_input_is_a_template_or_has_faults(form):
    outcome({"stepfast": 1, "workflow": "w", "steps": [{"id": "a", "set": 1}], "inputs": {"a": form}})
