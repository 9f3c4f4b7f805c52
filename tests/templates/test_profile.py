"""The profile of YAML: what a scalar means, what is refused, and where each part stands."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stepfast.workflows.templates import profile
from stepfast.workflows.templates.nodes import Document
from stepfast.workflows.templates.profile import Unreadable, read_text


def read(text: str) -> object:
    document, problems = read_text(text, "file")
    assert problems == []
    return document.root.plain()


def faults(text: str) -> list[str]:
    return [f"{each.line}:{each.column}: {each.message}" for each in read_text(text, "file")[1]]


def unreadable(text: str) -> str:
    with pytest.raises(Unreadable) as raised:
        read_text(text, "file")
    problem = raised.value.problem
    return f"{problem.line}:{problem.column}: {problem.message}"


SCALARS = {
    "no": "no",
    "off": "off",
    "on": "on",
    "Yes": "Yes",
    "y": "y",
    "true": True,
    "FALSE": False,
    "null": None,
    "~": None,
    "": None,
    "NULL": None,
    "nUll": "nUll",
    "12": 12,
    "-7": -7,
    "+3": 3,
    "010": 10,
    "0o17": 15,
    "0x1F": 31,
    "0b11": "0b11",
    "1_000": "1_000",
    "12:30:45": "12:30:45",
    "2026-01-01": "2026-01-01",
    "1.5": 1.5,
    ".5": 0.5,
    "1.": 1.0,
    "1e3": 1000.0,
    "-1.5E-2": -0.015,
    "1.2.3": "1.2.3",
    ".": ".",
    "-": "-",
    "+": "+",
    "'12'": "12",
    '"null"': "null",
    "'no'": "no",
}


@pytest.mark.parametrize(("text", "value"), SCALARS.items(), ids=repr)
def test_a_scalar_means_what_the_core_schema_of_yaml_1_2_says(text, value):
    found = read(f"[{text}]" if text not in ("", "-") else ("- " if not text else '["-"]'))
    assert found == [value]
    assert type(found[0]) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", "1e999", "9" * 200])
def test_a_number_that_json_cannot_hold_is_a_fault(text):
    assert len(faults(f"a: {text}")) == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\nb: 2\na: 3\n", "3:1: the key 'a' is here a second time; the first is in line 1"),
        ("a: {b: {c: 1, c: 2}}", "1:15: the key 'c' is here a second time; the first is in line 1"),
        ("- - x: 1\n    x: 1\n", "2:5: the key 'x' is here a second time; the first is in line 1"),
        ("a: !!str 1", "1:4: the tag 'tag:yaml.org,2002:str' makes something else of a value"),
        ("a: !!python/object:os.system x", "1:4: the tag 'tag:yaml.org,2002:python/object:os.system' makes"),
        ("a: !local {b: 1}", "1:4: the tag '!local' makes something else of a value"),
        ("a: &x 1", "1:4: the anchor &x gives a part a second name"),
        ("a: {<<: {b: 1}}", "1:5: the merge key << draws another map in"),
        ("1: a", "1:1: the key '1' is no text"),
        ("true: a", "1:1: the key 'true' is no text"),
        ("? [a]\n: 1", "1:3: the key is no text, but a map or a list"),
        ("a: 1\n---\nb: 2", "2:1: a second document begins here"),
        ("%YAML 1.1\n---\na: no", "1:1: the file says it is YAML 1.1, and is read as YAML 1.2"),
        ("%TAG ! tag:x,2000:\n---\na: 1", "1:1: the line %TAG gives names to tags"),
        ('a: "\\0"', "1:4: a NUL character cannot be stored"),
        ('"\\0": 1', "1:1: a NUL character cannot stand in a key"),
    ],
)
def test_what_the_profile_leaves_out_is_a_fault_with_its_place(text, place):
    found = faults(text)
    assert len(found) == 1
    assert found[0].startswith(place)


def test_an_alias_is_a_fault_beside_its_anchor():
    assert [each.partition(": ")[0] for each in faults("a: &x [1]\nb: *x\n")] == ["1:4", "2:4"]


def test_a_key_that_cannot_be_used_does_not_hide_faults_in_its_value():
    assert len(faults("<<: {a: 1, a: 2}\n2: {b: !x 1}")) == 4


def test_words_that_yaml_1_1_took_for_booleans_can_be_keys():
    assert read("on: 1\nno: 2\ny: 3") == {"on": 1, "no": 2, "y": 3}


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("", "1:1: the template is empty"),
        ("# only a comment\n", "1:1: the template is empty"),
        ("a: [1, 2", "2:1: this is no YAML"),
        ("a: 'b", "1:6: this is no YAML"),
        ("a:\n\t- b", "2:1: this is no YAML"),
        ("a: b: c", "1:5: this is no YAML"),
        ("a: @b", "1:4: this is no YAML"),
        ("a: \0", "1:4: the character U+0000 cannot stand in a template"),
        ("a: b\n c: \x07", "2:5: the character U+0007"),
        ("a: \ud800", "1:4: the character U+D800"),
        ("a: x\u2028y", "1:5: the character U+2028"),
        ("%YAML 2.0\n---\na: 1", "1:1: this is no YAML"),
    ],
)
def test_what_cannot_be_read_at_all_has_its_place_too(text, beginning):
    assert unreadable(text).startswith(beginning)


def test_a_byte_order_mark_and_line_ends_of_other_systems_change_nothing():
    plain = "a:\n  - |\n    x\n    y\nb: 1\n"
    assert read("\ufeff" + plain.replace("\n", "\r\n")) == read(plain) == {"a": ["x\ny\n"], "b": 1}


def test_json_is_read_as_it_is():
    data = {"a": [1, 2.5, None, True, 'x/y\t"q" 😀 ä'], "b": {}, "c": "no", "d": [], "e": "\u00e9\u20ac"}
    for text in (json.dumps(data), json.dumps(data, indent="\t"), json.dumps(data, ensure_ascii=False, indent=2)):
        assert read(text) == data


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029\ufeff\ufffe\uffff")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(categories=["L", "N"]), max_size=20), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_whatever_json_writes_is_read_back(data):
    assert read(json.dumps([data])) == [data]
    assert read(json.dumps([data], ensure_ascii=False, indent=1)) == [data]


def test_every_value_and_key_has_its_place():
    document, _ = read_text("a: 1\nbc:\n  - x\n  - {d: 'e'}\n", "file")
    places = {
        (): (1, 1),
        ("a",): (1, 4),
        ("bc",): (3, 3),
        ("bc", 0): (3, 5),
        ("bc", 1): (4, 5),
        ("bc", 1, "d"): (4, 9),
    }
    assert {path: document.mark(path)[1:] for path in places} == places
    assert document.mark(("bc",), at_key=True)[1:] == (2, 1)
    assert document.mark(("bc", 1, "d"), at_key=True)[1:] == (4, 6)


def test_a_part_that_is_missing_stands_where_its_owner_does():
    document, _ = read_text("a:\n  b: 1\n", "file")
    assert document.mark(("a", "c", "d"))[1:] == (2, 3)


INSIDE = {
    "plain": ("a: one X two", "X", (1, 8)),
    "plain on several lines": ("a: one\n  two\n  X three", "X", (3, 3)),
    "in single quotes": ("a: 'it''s X'", "X", (1, 11)),
    "in double quotes": ('a: "t\\t \\u0041 \\x41 \\" X"', "X", (1, 24)),
    "in double quotes on several lines": ('a: "one \\\n   two\n\n   X"', "X", (4, 4)),
    "literal": ("a: |\n   one\n     two X\n", "X", (3, 10)),
    "literal with an indicator": ("a: |2-\n    one\n   X\n", "X", (3, 4)),
    "folded": ("a: >-\n  one\n  two\n\n  X\n", "X", (5, 3)),
    "with astral characters": ("a: '😀😀 X'", "X", (1, 8)),
    "with other line ends": ("a: |\r\n  one\r\n  two X\r\n", "X", (3, 7)),
}


@pytest.mark.parametrize(("text", "wanted", "place"), INSIDE.values(), ids=INSIDE)
def test_a_place_inside_a_text_is_found_however_it_is_written(text, wanted, place):
    document, _ = read_text(text, "file")
    value = document.root.plain()["a"]
    assert document.mark(("a",), offset=value.index(wanted))[1:] == place


def test_the_parser_in_python_reads_the_same(monkeypatch):
    text = "a: [1, 'two', {b: 3}]\nc: |\n  x\n  y\n"
    first = read(text)
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert read(text) == first


def test_nothing_is_built_of_what_is_too_large(monkeypatch):
    monkeypatch.setattr(profile, "_Reader", None)
    assert "1,000,001 bytes" in unreadable("a" * 1_000_001)


@pytest.mark.parametrize("text", ["[" * 65 + "]" * 65, "- " * 65 + "x", "{a: " * 65 + "1" + "}" * 65])
def test_what_is_nested_too_deeply_is_refused(text):
    assert "nested more than 64 levels deep" in unreadable(text)


def test_what_is_nested_just_as_deeply_as_allowed_is_read():
    read("[" * 64 + "]" * 64)


def test_too_many_values_are_refused(monkeypatch):
    monkeypatch.setattr(profile, "MAX_NODES", 10)
    assert "more than 10 values" in unreadable("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]")


def test_data_is_read_like_a_text_without_places():
    document, problems = profile.of_data({"a": [1, None, "x"]}, "data")
    assert isinstance(document, Document)
    assert problems == []
    assert document.root.plain() == {"a": [1, None, "x"]}
    assert document.mark(("a", 0)).line == 0


LOOP: list[object] = []
LOOP.append(LOOP)


FOREIGN = {
    "a key that is a number": {1: 2},
    "an object": {"a": object()},
    "no number": {"a": float("nan")},
    "a list in itself": {"a": LOOP},
    "a NUL": {"a": "\0"},
    "bytes": {"a": b"x"},
    "a surrogate": {"\ud800": 1},
    "a long number": {"a": 10**300},
}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
def test_data_that_is_no_json_is_refused(data):
    with pytest.raises(Unreadable):
        profile.of_data(data, "data")
