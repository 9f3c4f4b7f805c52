"""Plugins: executors of installed packages, found by their entry points."""

from __future__ import annotations

import logging
import sys

import pytest

from stepfast import ExecutorNotFound, Stepfast
from stepfast.workflows.executors import plugins
from tests.executors.packages import write_package
from tests.support.apps import app_on

KINDS = """
    from stepfast import Domain, Executor, step

    class Sender:
        "Sends things."
        name = "kinds.class"
        def execute(self) -> str:
            return "sent"

    @step(name="kinds.step")
    async def stepped() -> None: ...

    domain = Domain("kinds.domain")
    domain.register(Sender, "send")
    executor = Executor.of(Sender, "kinds.executor")

    def register(executors):
        executors.register(Sender, "kinds.function")
        executors.domain("kinds.own").register(Sender, "send")
"""
KINDS_POINTS = """
    [stepfast.executors]
    class = {module}:Sender
    step = {module}:stepped
    domain = {module}:domain
    executor = {module}:executor
    function = {module}:register
"""

SOUND = "class Sound:\n    name = 'acme.sound'\n    def execute(self) -> None: ..."


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that Python looks for packages in; what is imported from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def an_app(**options) -> Stepfast:
    return Stepfast(workflows=[], worker=False, **options)


def test_every_kind_of_thing_is_taken_from_an_entry_point(site):
    write_package(site, "acme-kinds", KINDS_POINTS.format(module="acme_kinds"), acme_kinds=KINDS)
    found = {each.name: each.origin for each in an_app().executors.list("kinds")}
    names = {"class", "step", "domain.send", "executor", "function", "own.send"}
    assert found == {f"kinds.{name}": "acme-kinds 1.2" for name in names}


def test_nothing_is_imported_before_somebody_asks(site):
    write_package(site, "acme-lazy", "[stepfast.executors]\nlazy = acme_lazy:Lazy\n", acme_lazy="class Lazy: ...")
    app = an_app()
    app.executors.get("http.call")
    (known,) = [each for each in app.executors.plugins() if each.name == "lazy"]
    assert (known.distribution, known.target, "acme_lazy" in sys.modules) == ("acme-lazy", "acme_lazy:Lazy", False)


def test_a_name_that_nobody_else_has_is_looked_for_in_plugins(site):
    code = "class Fax:\n    name = 'acme.fax'\n    def execute(self) -> None: ..."
    write_package(site, "acme-fax", "[stepfast.executors]\nfax = acme_fax:Fax\n", acme_fax=code)
    assert an_app().executors.get("acme.fax").origin == "acme-fax 1.2"


def test_an_app_that_was_given_executors_takes_none_from_plugins(site):
    code = "class Fax:\n    name = 'acme.fax'\n    def execute(self) -> None: ..."
    write_package(site, "acme-given", "[stepfast.executors]\nfax = acme_given:Fax\n", acme_given=code)
    with pytest.raises(ExecutorNotFound):
        an_app(executors=[]).executors.get("acme.fax")
    assert "acme_given" not in sys.modules


BROKEN = {
    "an import that fails": ("import nothing_of_that_name", "x", "ModuleNotFoundError"),
    "a syntax error": ("def (", "x", "SyntaxError"),
    "a module that ends its process": ("raise SystemExit('bye')", "x", "SystemExit: bye"),
    "a module that raises anything": ("raise BaseException('odd')", "x", "BaseException: odd"),
    "a name that is not there": ("", "absent", "AttributeError"),
    "an object that is none": ("thing = 3", "thing", "InvalidDefinition"),
    "a class that cannot be made": ("class X:\n    def __init__(self): raise OSError('no')", "X", "InvalidDefinition"),
    "a function that raises": ("def register(executors): raise SystemExit(3)", "register", "SystemExit: 3"),
    "an empty domain": ("from stepfast import Domain\nd = Domain('empty')", "d", "has no executors"),
    "the name of a built-in one": ("def register(e): e.register(len, 'http.call')", "register", "Two executors"),
}


@pytest.mark.parametrize(("code", "name", "told"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_told_of_and_costs_the_others_nothing(code, name, told, site, caplog):
    write_package(site, "acme-broken", f"[stepfast.executors]\nbroken = acme_broken:{name}\n", acme_broken=code)
    write_package(site, "acme-sound", "[stepfast.executors]\nsound = acme_sound:Sound\n", acme_sound=SOUND)
    with caplog.at_level(logging.WARNING, "stepfast.plugins"):
        app = an_app()
        assert app.executors.get("acme.sound").origin == "acme-sound 1.2"
        (problem,) = app.executors.problems
    assert (problem.plugin.name, problem.plugin.distribution, told in problem.error) == ("broken", "acme-broken", True)
    assert [record.getMessage().split()[:2] for record in caplog.records] == [["plugin_failed", "plugin=broken"]]


HANGING = {
    "in its import": ("import threading\nthreading.Event().wait()", "x"),
    "while it registers": ("import threading\ndef register(executors): threading.Event().wait()", "register"),
}


@pytest.mark.parametrize(("code", "name"), HANGING.values(), ids=HANGING)
def test_a_plugin_that_never_comes_to_an_end_is_given_up_and_told_of(code, name, site, monkeypatch):
    monkeypatch.setattr(plugins, "PATIENCE_S", 0.5)
    write_package(site, "acme-hangs", f"[stepfast.executors]\nhangs = acme_hangs:{name}\n", acme_hangs=code)
    write_package(site, "acme-sound", "[stepfast.executors]\nsound = acme_sound:Sound\n", acme_sound=SOUND)
    app = an_app()
    assert app.executors.get("acme.sound").origin == "acme-sound 1.2"
    (problem,) = app.executors.problems
    assert (problem.plugin.name, problem.error) == ("hangs", "TimeoutError: it did not end within 0.5 s")


def test_a_plugin_that_hung_brings_nothing_when_it_goes_on_at_last(site, monkeypatch):
    monkeypatch.setattr(plugins, "PATIENCE_S", 0.2)
    code = """
        import threading
        go_on, ended = threading.Event(), threading.Event()
        def register(executors):
            go_on.wait()
            executors.register(len, "late.it")
            ended.set()
    """
    write_package(site, "acme-late", "[stepfast.executors]\nlate = acme_late:register\n", acme_late=code)
    app = an_app()
    assert app.executors.list("late") == []
    late = sys.modules["acme_late"]
    late.go_on.set()
    assert late.ended.wait(30)
    assert app.executors.list("late") == []


def test_a_plugin_may_use_the_list_of_the_app_that_loads_it(site, monkeypatch):
    code = "class Fax:\n    name = 'acme.fax'\n    def execute(self) -> None: ...\n"
    code += "def register(executors):\n    app.executors.register(Fax)\n    app.executors.list()\n"
    write_package(site, "acme-inner", "[stepfast.executors]\ninner = acme_inner:register\n", acme_inner=code)
    app = an_app()
    monkeypatch.setattr("acme_inner.app", app, raising=False)
    assert app.executors.get("acme.fax").origin == "acme_inner"
    assert app.executors.problems == ()


def test_a_plugin_that_fails_halfway_brings_nothing(site):
    code = """
        def register(executors):
            executors.register(len, "halfway.first")
            raise OSError("no more")
    """
    write_package(site, "acme-half", "[stepfast.executors]\nhalf = acme_half:register\n", acme_half=code)
    assert an_app().executors.list("halfway") == []


def test_the_declared_order_decides_who_is_first(site):
    for package, order in (("acme-a", 100), ("acme-b", 20), ("acme-c", 20)):
        module = package.replace("-", "_")
        code = "def register(executors): executors.register(type('X', (), dict(execute=lambda self: 1)), 'order.it')\n"
        code += f"register.order = {order}\n" if order != 100 else ""
        write_package(site, package, f"[stepfast.executors]\nit = {module}:register\n", **{module: code})
    app = an_app()
    assert app.executors.get("order.it").origin == "acme-b 1.2"
    assert [problem.plugin.distribution for problem in app.executors.problems] == ["acme-c", "acme-a"]


def test_the_other_groups_are_listed_and_not_imported(site):
    points = "".join(f"[{group}]\nit = acme_groups:it\n" for group in plugins.GROUPS)
    write_package(site, "acme-groups", points, acme_groups="raise SystemExit")
    listed = [each.group for each in an_app().executors.plugins() if each.distribution == "acme-groups"]
    assert (sorted(listed), "acme_groups" in sys.modules) == (sorted(plugins.GROUPS), False)


def test_a_plugin_may_ask_for_executors_while_it_is_loaded(site):
    code = """
        def register(executors):
            inner = executors.register(len, "asking.first")
            executors.domain("asking").register(inner, "second")
    """
    write_package(site, "acme-asking", "[stepfast.executors]\nit = acme_asking:register\n", acme_asking=code)
    app = an_app()
    assert [each.name for each in app.executors.list("asking")] == ["asking.first", "asking.second"]


def test_what_a_plugin_brings_can_be_unregistered(site):
    code = "class Fax:\n    name = 'acme.fax'\n    def execute(self) -> None: ..."
    write_package(site, "acme-gone", "[stepfast.executors]\nfax = acme_gone:Fax\n", acme_gone=code)
    app = an_app()
    app.executors.unregister("acme.fax")
    with pytest.raises(ExecutorNotFound):
        app.executors.get("acme.fax")


def test_metadata_that_cannot_be_read_costs_the_others_nothing(site):
    (site / "acme_garbled-1.0.dist-info").mkdir()
    (site / "acme_garbled-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe\x00Name\n")
    (site / "acme_garbled-1.0.dist-info" / "entry_points.txt").write_bytes(b"[stepfast.executors]\n\xff = [[[\n")
    code = "class Fax:\n    name = 'acme.fax'\n    def execute(self) -> None: ..."
    write_package(site, "acme-fine", "[stepfast.executors]\nfax = acme_fine:Fax\n", acme_fine=code)
    assert an_app().executors.get("acme.fax").origin == "acme-fine 1.2"


async def test_a_worker_announces_what_plugins_bring_with_a_queue(site, database):
    code = "class Fax:\n    name = 'acme.fax'\n    queue = 'lines'\n    def execute(self) -> None: ..."
    write_package(site, "acme-queue", "[stepfast.executors]\nfax = acme_queue:Fax\n", acme_queue=code)
    async with app_on(database, []) as app:
        (worker,) = await app.workers.list()
    assert ("acme.fax" in worker.codes, "lines" in worker.queues) == (True, True)
