"""Keys of seals: secrets that all share, and pairs of which the public half proves alone."""

from __future__ import annotations

import base64
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast import Invalid, Stepfast
from stepfast.settings import read_settings
from stepfast.signing import KeyedSigner, new_pair, read_seal_keys
from tests.support.workflows import say

SHARED = "1:" + base64.b64encode(bytes(range(32))).decode()
PAIR = new_pair("2026")
TEXT = b"what is sealed"


def signer(*keys: str) -> KeyedSigner:
    return KeyedSigner(read_seal_keys(",".join(keys)))


@pytest.mark.parametrize("keys", [(SHARED,), (PAIR.private,), (PAIR.private, SHARED), (SHARED, PAIR.private)])
def test_what_a_key_signs_it_proves(keys):
    one = signer(*keys)
    assert one.proves(TEXT, *one.sign(TEXT)) is True
    assert one.proves(TEXT + b".", *one.sign(TEXT)) is False


def test_the_public_half_proves_what_the_private_one_signed():
    assert signer(PAIR.public).proves(TEXT, *signer(PAIR.private).sign(TEXT)) is True


def test_the_public_half_signs_nothing():
    verifier = signer(PAIR.public)
    assert verifier.can_sign is False
    with pytest.raises(Invalid, match="STEPFAST_SEAL_KEYS has the private key"):
        verifier.sign(TEXT)


def test_the_public_half_of_another_pair_proves_nothing():
    assert signer(new_pair("2026").public).proves(TEXT, *signer(PAIR.private).sign(TEXT)) is False


def test_a_key_that_is_not_known_is_said_to_be_so():
    assert signer(SHARED).proves(TEXT, *signer(PAIR.private).sign(TEXT)) is None


def test_after_a_change_of_keys_both_prove_and_the_new_one_signs():
    old, new = signer(SHARED), signer(PAIR.private, SHARED)
    assert new.sign(TEXT)[0] == "2026"
    assert new.proves(TEXT, *old.sign(TEXT)) is True
    assert new.proves(TEXT, *new.sign(TEXT)) is True


def test_a_secret_is_not_proved_by_a_pair_of_its_name():
    """Which kind a key is of is said by who verifies, never by the seal."""
    name, signature = signer(SHARED).sign(TEXT)
    assert signer(f"{name}=ed25519-public:{PAIR.public.partition(':')[2]}").proves(TEXT, name, signature) is False


@given(st.text(max_size=140))
def test_no_text_but_the_signature_proves_anything(signature):
    for key in (SHARED, PAIR.private, PAIR.public):
        assert signer(key).proves(TEXT, "1" if key is SHARED else "2026", signature) is False


def test_a_signature_has_one_form():
    name, signature = signer(PAIR.private).sign(TEXT)
    spaced = f"{signature[:2]} {signature[2:]}"
    assert [signer(PAIR.public).proves(TEXT, name, form) for form in (signature.upper(), spaced)] == [False, False]


SECRET = base64.b64encode(b"a very secret key of some 32 bytes!").decode()
ODD = {
    "short": "a=ed25519:c2hvcnQ=",
    "long": f"a=ed25519:{SECRET}",
    "no base64": "a=ed25519:not base64 at all, is it",
    "an unknown kind": f"a=rsa:{SECRET}",
    "no kind": f"a=:{SECRET}",
    "no name": f"=ed25519:{SECRET}",
    "a name with blanks": f"a b=ed25519:{SECRET}",
    "a long name": f"{'a' * 65}=ed25519:{SECRET}",
    "a short secret": "1:c2hvcnQ=",
    "a number that is none": f"one:{SECRET}",
    "nothing": f"{SHARED},",
    "no colon": SECRET.rstrip("="),
    "one name twice": f"{PAIR.private},{PAIR.public}",
    "one name of two kinds": f"{SHARED},1=ed25519:{SHARED.partition(':')[2]}",
    "characters beyond ASCII": "a=ed25519:ÄÖÜ",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_an_odd_key_stops_the_program_by_its_name_and_is_not_shown(text, monkeypatch):
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", text)
    with pytest.raises(Invalid) as refused:
        Stepfast("sqlite:///absent.db", workflows=[say])
    words = str(refused.value)
    assert ("STEPFAST_SEAL_KEYS" in words, "name=ed25519:base64" in words) == (True, True)
    assert [part for part in (text, text.partition(":")[2]) if part and part in words] == []


@given(st.text(max_size=60))
def test_a_text_that_is_no_key_is_refused_with_words_that_do_not_tell_it(text):
    with pytest.raises(ValueError, match=r"^(a key|two keys) (is|has|have) (not? |too |one )[a-z0-9 ]+$"):
        read_seal_keys(f"a=ed25519:x{text}")


def test_keys_show_themselves_to_nobody():
    assert PAIR.private.partition(":")[2] not in repr(read_seal_keys(PAIR.private))


def test_a_pair_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", PAIR.private)
    with pytest.raises(Invalid, match=r"stepfast\[signing\]"):
        Stepfast("sqlite:///absent.db", workflows=[say])


def test_who_has_no_pair_needs_no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", SHARED)
    assert Stepfast("sqlite:///absent.db", workflows=[say]).signer is not None


@pytest.mark.parametrize("name", ["", "a b", "a=b", "a,b", "x" * 65, "-a"])
def test_a_name_that_settings_cannot_hold_is_refused(name):
    with pytest.raises(Invalid, match="no name for a key"):
        new_pair(name)


async def test_a_worker_with_public_keys_alone_seals_nothing_and_verifies(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", PAIR.private)
    async with Stepfast(database, workflows=[say]) as app:
        await (await app.start(say, "hello")).result(timeout="30s")
        await app.audit.seal()
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", PAIR.public)
    async with Stepfast(database, workflows=[say]) as app:
        assert app._open_parts().sealer is None
        report = await app.audit.verify()
        assert (report.is_sound, report.seals) == (True, 1)
        with pytest.raises(Invalid, match="private key"):
            await app.audit.seal()


def test_settings_hold_public_keys_too():
    keys = read_settings(environment={"STEPFAST_SEAL_KEYS": PAIR.public}).seal_keys
    assert keys is not None
    assert keys.are_public
