"""Domains: executors whose names begin alike, and what they have in common."""

from __future__ import annotations

import pytest

from stepfast import Domain, ExecutorNotFound, Retry, Stepfast, step
from stepfast.kernel.errors import InvalidDefinition

PATIENT = Retry(attempts=9)


class Eraser:
    def execute(self) -> None: ...


def open_app() -> Stepfast:
    return Stepfast(workflows=[], worker=False)


async def test_a_step_of_a_domain_is_called_like_any_other():
    user = Domain("domains_a")

    @user.step("create")
    async def create(name: str) -> str:
        return name.title()

    @user.step
    def rename(name: str) -> str:
        return name.upper()

    assert (await create("ann"), rename("ann")) == ("Ann", "ANN")
    assert (create.body.name, rename.body.name) == ("domains_a.create", "domains_a.rename")


def test_its_steps_are_known_to_every_app():
    user = Domain("domains_b")

    @user.step("create", description="Creates.", queue="users")
    async def create() -> None: ...

    found = open_app().executors.get("domains_b.create")
    assert (found.body, found.domain, found.description, found.queue) == (create.body, "domains_b", "Creates.", "users")


def test_the_steps_of_an_apps_own_domain_are_known_to_that_app_alone():
    app, other = open_app(), open_app()
    user = app.executors.domain("domains_c")

    @user.step("create")
    async def create() -> None: ...

    assert app.executors.get("domains_c.create").body is create.body
    with pytest.raises(ExecutorNotFound):
        other.executors.get("domains_c.create")


def test_two_apps_may_have_different_executors_under_one_name():
    for app in (open_app(), open_app()):

        @app.executors.domain("domains_d").step("create")
        async def create() -> None: ...

        assert app.executors.get("domains_d.create").body is create.body


def test_classes_and_functions_are_registered_in_it():
    user = Domain("domains_e")
    user.register(Eraser, "erase")
    user.register(len)
    assert [each.name for each in user.list()] == ["domains_e.erase", "domains_e.len"]


def test_a_retry_of_the_domain_holds_for_those_that_have_none():
    ai = Domain("domains_f", retry=PATIENT)

    @step(name="domains_loose")
    async def loose() -> None: ...

    @ai.step("score")
    async def score() -> None: ...

    ai.register(Eraser)
    ai.register(loose, "loose")
    assert {each.name: each.retry for each in ai.list()} == {
        "domains_f.score": PATIENT,
        "domains_f.Eraser": PATIENT,
        "domains_f.loose": PATIENT,
    }
    assert loose.body.retry is None


def test_the_steps_own_retry_wins():
    ai, own = Domain("domains_g", retry=PATIENT), Retry(attempts=2)

    @ai.step("score", retry=own)
    async def score() -> None: ...

    class Careful(Eraser):
        retry = own

    ai.register(Careful, "careful")
    assert [each.retry for each in ai.list()] == [own, own]


def test_two_under_one_name_of_a_domain_are_refused():
    user = Domain("domains_h")
    user.register(Eraser, "erase")
    with pytest.raises(InvalidDefinition, match=r"domains_h\.erase"):
        user.register(len, "erase")


def test_a_domain_without_executors_cannot_be_given_to_an_app():
    with pytest.raises(InvalidDefinition, match="has no executors"):
        Stepfast(workflows=[], worker=False, executors=[Domain("domains_i")])


@pytest.mark.parametrize("name", ["", "a b", "a/b", 7])
def test_a_domain_needs_a_usable_name(name):
    with pytest.raises(InvalidDefinition):
        Domain(name)
