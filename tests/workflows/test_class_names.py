"""A class is found by its recorded name wherever its module is known, and a script is never loaded for one."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from stepfast.workflows.class_names import find_class, name_of


@pytest.fixture
def script(monkeypatch, tmp_path) -> ModuleType:
    """What this process runs, as far as anybody can see: a file `shop.py` with a class in it."""
    main = ModuleType("__main__")
    file = tmp_path / "shop.py"
    file.write_text("class Declined(Exception): pass")
    exec(compile(file.read_text(), file, "exec"), vars(main))
    monkeypatch.setattr(main, "__file__", str(file), raising=False)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.syspath_prepend(tmp_path)
    return main


def test_a_class_of_a_module_is_named_and_found_by_it():
    assert name_of(ValueError) == "builtins:ValueError"
    assert find_class("collections:OrderedDict.nothing") is None
    assert find_class("json:JSONDecodeError") is __import__("json").JSONDecodeError


def test_a_class_of_a_script_is_named_with_the_name_that_others_import_it_by(script):
    assert name_of(script.Declined) == "__main__.shop:Declined"


@pytest.mark.parametrize("name", ["__main__.shop:Declined", "__main__:Declined", "shop:Declined"])
def test_a_script_finds_its_own_class_however_it_was_recorded_and_is_not_loaded_again(script, name):
    assert find_class(name) is script.Declined
    assert "shop" not in sys.modules


def test_a_class_of_a_script_that_was_also_imported_is_that_of_the_module_it_is_named_by(script, monkeypatch):
    shop = ModuleType("shop")
    shop.Declined = type("Declined", (Exception,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", shop)
    assert find_class("shop:Declined") is shop.Declined
    assert find_class("__main__.shop:Declined") is script.Declined


def test_a_class_of_another_script_is_found_where_somebody_has_imported_that(monkeypatch):
    shop = ModuleType("shop")
    shop.Declined = type("Declined", (Exception,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", shop)
    assert find_class("__main__.shop:Declined") is shop.Declined


def test_another_script_is_not_loaded_for_its_class(monkeypatch, tmp_path):
    (tmp_path / "market.py").write_text("raise SystemExit('it does its work')")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_class("__main__.market:Declined") is None


def test_a_module_run_by_its_name_is_known_by_that(script):
    script.__spec__ = type("Spec", (), {"name": "stores.shop"})()
    assert name_of(script.Declined) == "__main__.stores.shop:Declined"
