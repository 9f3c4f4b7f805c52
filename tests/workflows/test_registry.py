"""Which workflows an app has as its own, and which it has learned of tenants."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast.kernel.errors import InvalidDefinition
from stepfast.workflows.functions import Workflow
from stepfast.workflows.registry import MAX_LACKS, Registry


def made(name: str = "say", version: int = 1, digest: str | None = "aaaa") -> Workflow:
    async def function() -> None: ...

    workflow = Workflow(function, name, version, "default", 0)
    workflow.digest = digest
    return workflow


@pytest.fixture
def registry() -> Registry:
    return Registry([])


def codes_of_workflows(registry: Registry) -> list[str]:
    """Without those of steps, which every app of the process knows."""
    return [code for code in registry.codes() if "@" in code]


def test_what_a_tenant_has_registered_can_be_executed_and_is_nobody_elses(registry):
    registry.learn("acme", made())
    assert codes_of_workflows(registry) == ["say@1#aaaa"]
    assert registry.find("say", tenant="globex") is None
    assert registry.workflows() == []


def test_what_is_learned_twice_stays_the_tenants(registry):
    registry.learn("acme", made())
    assert codes_of_workflows(registry) == ["say@1#aaaa"]
    registry.learn("acme", made())
    assert registry.workflows() == []


def test_what_was_learned_does_not_become_the_apps_own_by_a_start(registry):
    learned = made()
    registry.learn("acme", learned)
    registry.add(learned)
    assert registry.find("say", tenant="globex") is None


def test_the_apps_own_come_before_what_is_registered(registry):
    own = made(digest=None)
    registry.add(own)
    registry.learn("acme", made(version=2))
    assert registry.find("say", tenant="acme") is own


@pytest.mark.parametrize(("version", "found"), [(None, 2), (1, 1), (3, None)])
def test_one_is_found_in_a_version_or_the_newest(registry, version, found):
    for each in (1, 2):
        registry.learn("acme", made(version=each))
    workflow: Any = registry.find("say", version, "acme")
    assert (workflow and workflow.version) == found


def test_two_contents_under_one_version_are_refused(registry):
    registry.add(made(digest="aaaa"))
    with pytest.raises(InvalidDefinition, match="version 2"):
        registry.add(made(digest="bbbb"))


def test_what_is_lacked_is_told_until_it_is_learned(registry):
    registry.lack("say@1#aaaa", "x" * 1_000)
    assert len(registry.lacks()["say@1#aaaa"]) == 300
    registry.learn("acme", made())
    assert registry.lacks() == {}


def test_however_much_is_lacked_a_worker_tells_of_a_part(registry):
    for number in range(MAX_LACKS + 1):
        registry.lack(f"say@{number}#aaaa", "missing")
    assert len(registry.lacks()) == MAX_LACKS
