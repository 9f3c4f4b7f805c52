"""The rules of assets: names, versions, what is the same again."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast import Invalid
from stepfast.kernel.assets import (
    AssetName,
    NewAsset,
    check_name,
    fresh_id,
    is_put_already,
    next_version,
    parse_asset,
    place_of,
)
from stepfast.kernel.blobs import BlobKey, check_key, reference_to
from stepfast.kernel.durations import Instant
from stepfast.kernel.media_types import check_kind, fits_type
from stepfast.kernel.texts import MAX_NAME, MAX_NAME_BYTES

NOW = Instant(1)
NAMES = st.text(min_size=1, max_size=MAX_NAME).filter(lambda name: is_name(name))


def is_name(name: str) -> bool:
    try:
        check_name("It", name)
    except Invalid:
        return False
    return True


def version_of(name: str):
    return next_version(None, NewAsset("acme", name), name, reference_to(b"one"), NOW)


@given(st.text())
def test_a_name_is_taken_whole_or_refused(name):
    if is_name(name):
        assert check_name("It", name) == name
        assert not {".", "..", ""} & set(name.split("/"))


@given(NAMES, st.integers(1, 2**31 - 1))
def test_an_address_leads_back_to_its_version(name, version):
    asset = version_of(name)._replace(version=version)
    assert parse_asset(asset.uri) == parse_asset(asset) == parse_asset(f"{name}@{version}") == AssetName(name, version)
    assert unquote(asset.uri) == f"asset:{name}@{version}"


@given(NAMES, NAMES)
def test_places_of_assets_are_keys_of_their_own(one, other):
    check_key(BlobKey("acme", place_of(one), "sha256-00"))
    assert (place_of(one) == place_of(other)) == (one == other)


@given(NAMES, st.integers(2, 10**9))
def test_a_fresh_id_is_a_name(name, number):
    fresh = fresh_id(name, number)
    assert len(fresh) <= MAX_NAME
    assert len(fresh.encode()) <= MAX_NAME_BYTES
    assert fresh.endswith(f"-{number}")
    assert is_name(fresh)


@pytest.mark.parametrize(
    ("media_type", "wanted", "fits"),
    [
        ("image/png", "image/*", True),
        ("image/png", "*/*", True),
        ("image/png", "image/png", True),
        ("image/png", "image/p", False),
        ("imagery/png", "image/*", False),
        ("text/plain; charset=utf-8", "text/plain", True),
        ("text/plain", "text/plain; charset=utf-8", False),
    ],
)
def test_a_type_fits_itself_and_its_kind(media_type, wanted, fits):
    assert fits_type(media_type, wanted) is fits


@pytest.mark.parametrize("wanted", ["image/png", "Image/*", "*/*", "TEXT/plain; charset=utf-8"])
def test_what_is_wanted_of_types_is_compared_in_small_letters(wanted):
    assert check_kind(wanted) == wanted.lower()


@pytest.mark.parametrize("wanted", ["*/pdf", "image/p*", "*", "image/*; q=1", "", 7, None])
def test_what_no_type_could_ever_fit_is_refused(wanted):
    with pytest.raises(Invalid, match=r"like 'image/\*'"):
        check_kind(wanted)


def test_only_what_is_said_makes_a_version():
    first = next_version(None, NewAsset("acme", "a", "text/plain", '{"n":1}', ("x",)), "a", reference_to(b"one"), NOW)
    again = NewAsset("acme", "a")
    assert is_put_already(first, again, reference_to(b"one"))
    assert not is_put_already(first, again, reference_to(b"two"))
    for news in ({"media_type": "text/html"}, {"metadata": "{}"}, {"tags": ()}):
        assert not is_put_already(first, again._replace(**news), reference_to(b"one"))
