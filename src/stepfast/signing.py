"""The keys of seals: who has them can seal the trail, and who does not cannot change it unnoticed."""

from __future__ import annotations

import hmac

from stepfast.tokens import KeyRing

# The same keys may be set for tokens: what one proves must never prove the other.
_SEALS_ONLY = b"seal:"


class KeyedSigner:
    """Signs with the first of several keys, and knows the signatures of all."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys

    def sign(self, text: bytes) -> tuple[str, str]:
        """The name of the key, and the signature."""
        key = self._keys[0]
        return str(key.number), key.secret.mac_of(_SEALS_ONLY + text).hex()

    def proves(self, text: bytes, key: str, signature: str) -> bool | None:
        """Whether the signature is that of the key; None when the key is not known here."""
        for each in self._keys:
            if str(each.number) == key:
                made = each.secret.mac_of(_SEALS_ONLY + text).hex()
                return hmac.compare_digest(made.encode(), signature.encode("utf-8", "surrogatepass"))
        return None
