"""Named statements and their two dialects."""

from __future__ import annotations

import pytest

from stepfast.stores.statements import joined, load_statements, narrowed, numbered, shared_statements, unprefixed


def test_a_file_is_read_as_statements_by_name():
    assert {"get_run", "list_runs", "list_records", "get_outcome"} <= set(shared_statements())


def test_a_statement_has_neither_its_comment_nor_its_end():
    text = shared_statements()["list_events"]
    assert text.startswith("select ")
    assert not text.endswith(";")


def test_sqlite_gets_plain_table_names():
    assert unprefixed("select stepfast.now_ms() from stepfast.run r") == "select now_ms() from run r"


def test_sqlite_gets_a_hold_as_the_number_that_its_indexes_name():
    assert unprefixed("where not t.hold and t.crashes = 0") == "where t.hold = 0 and t.crashes = 0"


def test_each_name_gets_one_number():
    assert numbered("a = :a and b = :b and c = :a") == ("a = $1 and b = $2 and c = $1", ("a", "b"))


def test_casts_and_quoted_text_are_no_parameters():
    assert numbered("x = ':no' and y::text = :yes::text") == ("x = ':no' and y::text = $1::text", ("yes",))


def test_an_optional_condition_that_is_not_asked_for_is_left_out():
    assert narrowed("where a = 1\n   and (cast(:b as text) is null or b = :b)\n order by a", set()) == (
        "where a = 1\n order by a"
    )


def test_an_optional_condition_that_is_asked_for_stands_alone():
    assert narrowed("where a = 1\n   and (cast(:b as text) is null or b = :b)\n order by a", {"b"}) == (
        "where a = 1\n   and b = :b\n order by a"
    )


def test_a_file_that_does_not_exist_is_an_error():
    with pytest.raises(FileNotFoundError):
        load_statements("stepfast.stores", "sql/nothing.sql")


def test_statements_that_are_joined_keep_their_own_parameters():
    query = joined(["update a set b = :b where c = ':b'", "delete from d where b = :b and c = :c"])
    assert query.names == ("b_0", "b_1", "c_1")
    assert query.text == (
        "with w0 as (update a set b = $1 where c = ':b'), w1 as (delete from d where b = $2 and c = $3) select 1"
    )
