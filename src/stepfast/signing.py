"""The keys of seals: who has them can seal the trail, and who does not cannot change it unnoticed.

A key is a secret, which signs and proves (HMAC), or a pair (Ed25519), of which the private half signs and the public
half proves. Nothing here lets a key get into a text that somebody might print.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stepfast.kernel.errors import Invalid
from stepfast.tokens import MIN_KEY_BYTES, NEW_KEY, Key, Secret, read_keys

# Only who has a pair needs the package that knows about pairs.
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

# The same keys may be set for tokens: what one proves must never prove the other.
_SEALS_ONLY = b"seal:"

SHARED, PAIR, PUBLIC = "shared", "ed25519", "ed25519-public"
PAIR_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)

KEYS_ALLOWED = (
    f"keys with commas between them, the one for new seals first: name={PAIR}:base64 or, to verify alone, "
    f"name={PUBLIC}:base64, as `stepfast audit keygen` makes them; or number:base64 with {MIN_KEY_BYTES} bytes or "
    f"more, as `{NEW_KEY}` makes them"
)


ONLY_PUBLIC = (
    "The keys here are public ones, which prove seals and make none. Seal where STEPFAST_SEAL_KEYS has the private key."
)


class GivenKey(NamedTuple):
    """A key as somebody wrote it: its name, its kind, and what it is, which is never shown."""

    name: str
    kind: str
    content: Secret


class SealKeys(tuple[GivenKey, ...]):
    """Keys by which seals are known; new ones are signed with the first that can sign."""

    __slots__ = ()

    @property
    def are_public(self) -> bool:
        """Whether anybody may see them."""
        return all(key.kind == PUBLIC for key in self)


def read_seal_keys(text: str) -> SealKeys:
    """Keys as people write them; whatever is wrong with them raises ValueError, which does not tell what they are."""
    keys = SealKeys(_read_key(part.strip()) for part in text.split(","))
    if len({key.name for key in keys}) != len(keys):
        raise ValueError("two keys have one name")
    return keys


def _read_key(text: str) -> GivenKey:
    head, _, content = text.partition(":")
    name, separator, kind = head.partition("=")
    if not separator:
        if not head.isdigit():
            raise ValueError(f"a key begins neither with its name and kind, as a={PAIR}:, nor with its number, as 1:")
        (key,) = read_keys(text)
        return _shared(key)
    if not _NAME.fullmatch(name):
        raise ValueError("a key has no name")
    if kind not in (PAIR, PUBLIC):
        raise ValueError("a key is of no kind that is known")
    try:
        has_length = len(base64.b64decode(content, validate=True)) == PAIR_BYTES
    except ValueError:
        raise ValueError("a key is not base64") from None
    if not has_length:
        raise ValueError("a key has not the length of its kind")
    return GivenKey(name, kind, Secret(content))


def _shared(key: Key) -> GivenKey:
    return GivenKey(str(key.number), SHARED, key.secret)


class _Proof(Protocol):
    """One key at work."""

    def sign(self, text: bytes) -> str: ...

    def proves(self, text: bytes, signature: str) -> bool: ...


class _SharedKey:
    """A key that signs and proves: whoever can verify could also seal."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    def sign(self, text: bytes) -> str:
        return self._secret.mac_of(text).hex()

    def proves(self, text: bytes, signature: str) -> bool:
        return hmac.compare_digest(self.sign(text).encode(), signature.encode("utf-8", "surrogatepass"))


class _PairKey:
    """A pair, or its public half alone."""

    def __init__(self, private: Ed25519PrivateKey | None, public: Ed25519PublicKey) -> None:
        self._private = private
        self._public = public

    def sign(self, text: bytes) -> str:
        assert self._private is not None
        return self._private.sign(text).hex()

    def proves(self, text: bytes, signature: str) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(bytes.fromhex(signature), text)
        except (InvalidSignature, ValueError):
            return False
        # One signature has one form, so that none can be swapped for another that means the same.
        return signature == bytes.fromhex(signature).hex()

    def public_text(self) -> str:
        """The public half as people write it."""
        return base64.b64encode(self._public.public_bytes_raw()).decode()


def _at_work(key: GivenKey) -> _Proof:
    if key.kind == SHARED:
        return _SharedKey(key.content)
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    except ImportError:
        words = f"Key {key.name!r} of seals is of the kind {key.kind}, which needs the package cryptography"
        raise Invalid(f"{words}: pip install 'stepfast[signing]'.") from None
    content = base64.b64decode(key.content.revealed())
    if key.kind == PUBLIC:
        return _PairKey(None, Ed25519PublicKey.from_public_bytes(content))
    private = Ed25519PrivateKey.from_private_bytes(content)
    return _PairKey(private, private.public_key())


class KeyedSigner:
    """Signs with the first of several keys that can, and knows the signatures of all."""

    def __init__(self, keys: Iterable[Key | GivenKey]) -> None:
        given = [_shared(key) if isinstance(key, Key) else key for key in keys]
        self._keys = {key.name: _at_work(key) for key in given}
        self._signs = next((key.name for key in given if key.kind != PUBLIC), None)

    @property
    def can_sign(self) -> bool:
        return self._signs is not None

    def sign(self, text: bytes) -> tuple[str, str]:
        """The name of the key, and the signature."""
        if self._signs is None:
            raise Invalid(ONLY_PUBLIC)
        return self._signs, self._keys[self._signs].sign(_SEALS_ONLY + text)

    def proves(self, text: bytes, key: str, signature: str) -> bool | None:
        """Whether the signature is that of the key; None when the key is not known here."""
        known = self._keys.get(key)
        return None if known is None else known.proves(_SEALS_ONLY + text, signature)


class NewPair(NamedTuple):
    """A new pair as settings take it: for those who seal, and for those who verify."""

    private: str
    public: str


def new_pair(name: str) -> NewPair:
    """A pair that nobody else has."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name!r} is no name for a key: write up to 64 letters, digits, dots, dashes and underscores.")
    content = base64.b64encode(secrets.token_bytes(PAIR_BYTES)).decode()
    pair = _at_work(GivenKey(name, PAIR, Secret(content)))
    assert isinstance(pair, _PairKey)
    return NewPair(f"{name}={PAIR}:{content}", f"{name}={PUBLIC}:{pair.public_text()}")
