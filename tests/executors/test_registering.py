"""The executors of an app: what is known under which name, and what is refused."""

from __future__ import annotations

import pytest

from stepfast import Domain, Executor, ExecutorNotFound, Retry, Stepfast, step
from stepfast.kernel.errors import InvalidDefinition
from stepfast.workflows.limits import Limits

BUILTIN = ["command.run", "http.call", "python.call"]


class Greeter:
    """Greets people.

    In many languages.
    """

    queue = "voices"
    retry = Retry(attempts=7)
    timeout = "3s"
    total_timeout = "9s"

    async def execute(self, who: str) -> str:
        return f"Hello {who}"


def app_with(*executors: object) -> Stepfast:
    return Stepfast(workflows=[], worker=False, executors=executors)


def names(app: Stepfast) -> list[str]:
    return [executor.name for executor in app.executors.list()]


def test_an_app_has_the_built_in_executors():
    assert [(each.name, each.kind) for each in app_with().executors.list()] == [(name, "builtin") for name in BUILTIN]


def test_every_step_of_the_process_is_an_executor():
    @step(name="registering.known_by_itself")
    async def known() -> None:
        """Is known."""

    found = Stepfast(workflows=[], worker=False).executors.get("registering.known_by_itself")
    assert (found.kind, found.domain, found.description) == ("step", "registering", "Is known.")
    assert found.body is known.body


def test_an_app_that_was_given_executors_has_no_others_beside_the_built_in_ones():
    @step(name="registering.other")
    async def other() -> None: ...

    app = app_with(Greeter)
    assert names(app) == ["Greeter", *BUILTIN]
    with pytest.raises(ExecutorNotFound):
        app.executors.get(other.body.name)


def test_a_function_is_registered_under_its_own_name_or_another():
    def greet(who: str) -> str:
        return who

    app = app_with()
    app.executors.register(greet)
    app.executors.register(greet, "people.greet", "Greets.")
    assert (app.executors.get("greet").description, app.executors.get("people.greet").description) == ("", "Greets.")
    assert app.executors.get("people.greet").body.name == "people.greet"


def test_a_class_is_made_and_its_attributes_are_its_policies():
    found = app_with().executors.register(Greeter, "people.greet")
    assert (found.kind, found.queue, found.description) == ("class", "voices", "Greets people.")
    assert (found.retry, found.limits) == (Greeter.retry, Limits(3_000, 9_000))


async def test_an_instance_is_called_with_what_it_was_made_with():
    class Polite:
        def __init__(self, title: str) -> None:
            self.title = title

        def execute(self, who: str) -> str:
            return f"{self.title} {who}"

    found = app_with().executors.register(Polite("Dr"), "people.polite")
    assert found.body.function(who="Who") == "Dr Who"


def test_a_class_that_needs_arguments_is_refused_with_the_remedy():
    class Needy:
        def __init__(self, title: str) -> None: ...

        def execute(self) -> None: ...

    with pytest.raises(InvalidDefinition, match="Register an instance"):
        app_with().executors.register(Needy)


@pytest.mark.parametrize(
    "thing", [3, object(), "text", type("Idle", (), {})], ids=["number", "object", "text", "class"]
)
def test_what_cannot_be_executed_is_refused(thing):
    with pytest.raises(InvalidDefinition, match="no executor"):
        app_with().executors.register(thing)


def test_a_function_that_does_not_say_what_it_takes_is_refused():
    with pytest.raises(InvalidDefinition, match="Wrap it in a function"):
        app_with().executors.register(max)


@pytest.mark.parametrize("name", ["with blank", "a/b", "a@1", "#", "x" * 201])
def test_a_name_that_addresses_could_not_hold_is_refused(name):
    with pytest.raises(InvalidDefinition, match="cannot be used"):
        app_with().executors.register(Greeter, name)


def test_two_under_one_name_are_refused():
    app = app_with()
    app.executors.register(Greeter, "people.greet")
    with pytest.raises(InvalidDefinition, match=r"Two executors are called people\.greet") as refused:
        app.executors.register(lambda: None, "people.greet")
    assert refused.value.code == "E-VAL-002"


def test_the_very_same_thing_is_registered_twice_without_complaint():
    def greet() -> None: ...

    app = app_with()
    for thing in (greet, Greeter):
        first = app.executors.register(thing, f"twice.{thing.__name__}")
        assert app.executors.register(thing, f"twice.{thing.__name__}") is first


def test_a_step_may_be_registered_though_it_is_known_already():
    @step(name="registering.twice_known")
    async def known() -> None: ...

    app = Stepfast(workflows=[], worker=False)
    assert app.executors.register(known) is app.executors.get("registering.twice_known")


def test_another_thing_under_the_name_of_a_step_is_refused():
    @step(name="registering.taken")
    async def taken() -> None: ...

    with pytest.raises(InvalidDefinition, match=r"registering\.taken"):
        Stepfast(workflows=[], worker=False).executors.register(Greeter, taken.body.name)


def test_an_executor_that_is_not_there_is_not_found_and_the_nearest_is_named():
    app = app_with()
    app.executors.register(Greeter, "people.greet")
    with pytest.raises(ExecutorNotFound, match=r"Did you mean 'people\.greet'\?") as missing:
        app.executors.get("people.great")
    assert missing.value.code == "E-EXE-001"


def test_what_was_unregistered_is_not_found():
    app = app_with(Greeter)
    app.executors.unregister("Greeter")
    with pytest.raises(ExecutorNotFound):
        app.executors.get("Greeter")
    assert names(app) == BUILTIN


def test_a_step_that_was_unregistered_is_not_found_until_it_is_registered_again():
    @step(name="registering.hidden")
    async def hidden() -> None: ...

    app = Stepfast(workflows=[], worker=False)
    app.executors.unregister("registering.hidden")
    with pytest.raises(ExecutorNotFound):
        app.executors.get("registering.hidden")
    app.executors.register(hidden)
    assert app.executors.get("registering.hidden").body is hidden.body


def test_unregistering_what_is_not_there_is_not_found():
    with pytest.raises(ExecutorNotFound):
        app_with().executors.unregister("nobody")


def test_what_one_app_has_unregistered_another_still_has():
    app, other = app_with(Greeter), app_with(Greeter)
    app.executors.unregister("Greeter")
    assert other.executors.get("Greeter").name == "Greeter"


def test_a_list_may_be_of_one_domain():
    app = app_with()
    for name in ("user.create", "user.mail.send", "order.create"):
        app.executors.register(Greeter, name)
    assert [each.name for each in app.executors.list("user")] == ["user.create", "user.mail.send"]


def test_only_executors_with_a_queue_of_their_own_are_codes():
    def plain() -> None: ...

    app = app_with(Greeter, plain)
    assert app.codes() == ["Greeter"]


def test_an_executor_may_be_made_beforehand():
    made = Executor.of(Greeter, "people.greet", "Greets.")
    assert app_with(made).executors.get("people.greet") is made


def test_domains_are_given_whole():
    user = Domain("registering_user")
    user.register(Greeter, "greet")
    assert names(app_with(user)) == [*BUILTIN, "registering_user.greet"]
