"""Inputs that a start expands: what is meant is looked up once, and what is wrong is told all at once."""

from __future__ import annotations

import pytest

from stepfast import Invalid
from stepfast.kernel import assets as kernel
from stepfast.workflows import inputs
from stepfast.workflows.inputs import AssetsOf, InputSpec, resolve_input
from stepfast.workflows.plans.plan import Computed

PDF = {"id": "contract", "version": 2, "uri": "asset:contract@2", "media_type": "application/pdf"}
PDF |= {"metadata": {"pages": 7}, "tags": ["legal"]}


@pytest.fixture
async def assets(app) -> AssetsOf:
    """The assets of a tenant who has a contract in two versions, two clauses and a picture."""
    for content in ("v1", "v2"):
        said = {"media_type": "application/pdf", "metadata": {"pages": 7}, "tags": ["legal"]}
        await app.assets.put(content, "contract", tenant="acme", **said)
    for name in ("clause-b", "clause-a"):
        await app.assets.put("x", name, tenant="acme", tags=["clause"])
    await app.assets.put(b"x", "picture", tenant="acme", media_type="image/png")
    await app.assets.collect("clauses", ["clause-b", "clause-a"], tenant="acme")
    await app.assets.put("x", "secret", tenant="bolt")
    return AssetsOf(app._open_parts().assets, "acme")


async def resolved(assets, kind, given=inputs.MISSING, **spec):
    return await resolve_input(kind, InputSpec(**spec), given, assets)


def ids(items):
    return [item["id"] for item in items]


@pytest.mark.parametrize("given", ["contract", "contract@2", "asset:contract@2", {"id": "contract"}, PDF])
async def test_an_asset_is_expanded_to_what_steps_need(assets, given):
    assert await resolved(assets, "asset", given, type="application/pdf") == PDF


async def test_an_earlier_version_can_be_named(assets):
    assert (await resolved(assets, "asset", "contract@1"))["uri"] == "asset:contract@1"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("nothing", "asset 'nothing' does not exist"),
        ("contract@3", "asset 'contract' does not exist in version 3"),
        ("secret", "asset 'secret' does not exist"),
        ("../secret", "no part between slashes"),
        ("contract@newest", "the number of a version"),
        ({"id": "contract", "version": 0}, "version"),
        (7, "give its id"),
        ("picture", "asset 'picture' is image/png; wanted is application/pdf"),
    ],
)
async def test_an_asset_that_does_not_fit_is_refused(assets, given, complaint):
    with pytest.raises(Invalid, match=complaint):
        await resolved(assets, "asset", given, type="application/pdf")


async def test_a_kind_of_type_is_enough(assets):
    assert (await resolved(assets, "asset", "picture", type="image/*"))["id"] == "picture"


async def test_a_collection_is_expanded_in_its_order(assets):
    assert ids(await resolved(assets, "collection", of="clauses")) == ["clause-b", "clause-a"]
    assert ids(await resolved(assets, "collection", "clauses")) == ["clause-b", "clause-a"]
    assert ids(await resolved(assets, "collection", ["picture", "contract@1"])) == ["picture", "contract"]


async def test_everything_wrong_with_a_collection_is_told_at_once(assets):
    with pytest.raises(Invalid) as raised:
        await resolved(assets, "collection", ["gone", "picture", "secret"], type="text/*")
    for complaint in ("'gone' does not exist", "'picture' is image/png", "'secret' does not exist"):
        assert f"asset {complaint}" in str(raised.value)


@pytest.mark.parametrize("spec", [{}, {"of": "gone"}])
async def test_a_collection_that_is_not_there_is_refused(assets, spec):
    with pytest.raises(Invalid, match="collection"):
        await resolved(assets, "collection", **spec)


def tagged(tag):
    return Computed(lambda scope: tag in scope["item"]["tags"])


async def test_a_query_takes_what_its_formula_wants_by_id(assets):
    assert ids(await resolved(assets, "query", where=tagged("clause"))) == ["clause-a", "clause-b"]
    assert ids(await resolved(assets, "query", type="image/*")) == ["picture"]
    assert await resolved(assets, "query", where=tagged("none")) == []


async def test_a_query_looks_through_every_page(assets, monkeypatch):
    monkeypatch.setattr(inputs, "PAGE", 1)
    assert ids(await resolved(assets, "query")) == ["clause-a", "clause-b", "contract", "picture"]


async def test_a_query_that_finds_too_much_is_refused(assets, monkeypatch):
    monkeypatch.setattr(inputs, "MAX_COLLECTED", 3)
    with pytest.raises(Invalid, match="finds more than 3 assets"):
        await resolved(assets, "query")
    assert kernel.MAX_COLLECTED == 10_000


def fails(scope):
    return scope["item"]["metadata"]["pages"] > 5


@pytest.mark.parametrize(
    ("formula", "complaint"), [(fails, "cannot be told of asset 'clause-a'"), (lambda scope: 1, "true or false")]
)
async def test_a_formula_that_cannot_be_told_is_refused(assets, formula, complaint):
    with pytest.raises(Invalid, match=complaint):
        await resolved(assets, "query", where=Computed(formula))


async def test_a_query_is_given_nothing(assets):
    with pytest.raises(Invalid, match="finds its items itself"):
        await resolved(assets, "query", ["contract"])


async def test_an_event_is_what_was_given_if_it_is_of_the_type(assets):
    event = {"type": "com.acme.uploaded", "data": {"n": 1}}
    assert await resolved(assets, "event", event, type="com.acme.uploaded") == event
    with pytest.raises(Invalid, match=r"wanted is 'com.acme.signed'"):
        await resolved(assets, "event", event, type="com.acme.signed")
    with pytest.raises(Invalid, match="give an event"):
        await resolved(assets, "event", "uploaded")


async def test_a_payload_is_itself_or_its_default(assets):
    assert await resolved(assets, "payload", None) is None
    assert await resolved(assets, "payload", default="standard") == "standard"
    with pytest.raises(Invalid, match="nothing is given"):
        await resolved(assets, "payload")
