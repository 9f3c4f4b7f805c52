"""Which workflows an app has as its own, and which it has learned of tenants."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from stepfast import step
from stepfast.kernel.errors import InvalidDefinition
from stepfast.workflows.functions import Workflow
from stepfast.workflows.registry import MAX_LACKS, Defined, Registry


def made(name: str = "say", version: int = 1, digest: str | None = "aaaa") -> Workflow:
    async def function() -> None: ...

    workflow = Workflow(function, name, version, "default", 0)
    workflow.digest = digest
    return workflow


@pytest.fixture
def registry(nothing_left: None) -> Registry:
    return Registry([])


def test_what_a_tenant_has_registered_can_be_executed_and_is_nobody_elses(registry):
    registry.learn("acme", made())
    assert registry.codes() == ["say@1#aaaa"]
    assert registry.find("say", tenant="globex") is None
    assert registry.workflows() == []


def test_what_is_learned_twice_stays_the_tenants(registry):
    registry.learn("acme", made())
    assert registry.codes() == ["say@1#aaaa"]
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


def step_with_a_queue(name: str = "embed") -> Any:
    @step(name=name, queue="gpu")
    async def function() -> None: ...

    return function


def test_a_step_with_a_queue_is_known_for_as_long_as_somebody_has_it(registry):
    kept = step_with_a_queue()
    assert registry.codes() == ["embed"]
    del kept
    assert registry.codes() == []


@pytest.fixture
def defined(monkeypatch: pytest.MonkeyPatch) -> Defined[Workflow]:
    """All workflows of the process: none yet."""
    nothing: Defined[Workflow] = Defined()
    monkeypatch.setattr("stepfast.workflows.registry.DEFINED", nothing)
    return nothing


def test_what_an_app_of_every_workflow_knew_is_not_kept_by_it(defined):
    everything = Registry(None)
    kept = made()
    defined.add(kept)
    assert everything.find("say") is kept
    del kept
    assert everything.find("say") is None


def test_what_is_given_to_an_app_is_kept_by_it(registry):
    registry.add(made())
    gc.collect()
    assert (registry.codes(), registry.codes()) == (["say@1#aaaa"], ["say@1#aaaa"])


def test_a_tenant_s_workflow_is_known_again_once_an_equal_one_of_the_process_is_dropped(defined):
    everything = Registry(None)
    everything.learn("acme", made())
    own = made()
    defined.add(own)
    assert everything.find("say") is own
    del own
    assert everything.find("say", tenant="acme") is not None
    assert everything.find("say") is None
