"""Resume tokens: how one is made and known again, and where the keys come from that their hashes are made with.

A token is what a person shows; nothing here lets it, or a key, get into a text that somebody might print.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
import secrets
import struct
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from stepfast.kernel.decisions import CallId
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, StoreUnusable
from stepfast.kernel.ids import RunId
from stepfast.kernel.reviews import ReviewId

PREFIX = "sfr_"
CALLBACK_PREFIX = "sfc_"
RANDOM_BYTES = 32
MIN_KEY_BYTES = 32
MAX_KEY_NUMBER = 255
MAX_WAIT_ID = 2**31 - 1

# The address of the review (run and number), the number of the key, and what nobody can guess.
_ADDRESS_BYTES = 16 + 4
_TOKEN_BYTES = _ADDRESS_BYTES + 1 + RANDOM_BYTES
_TEXT_LENGTH = len(PREFIX) + (_TOKEN_BYTES * 8 + 5) // 6

NEW_KEY = "python -c \"import secrets, base64; print('1:' + base64.b64encode(secrets.token_bytes(32)).decode())\""
"""How a person makes a key."""
KEYS_ALLOWED = (
    f"keys as number:base64 with commas between them, each of {MIN_KEY_BYTES} bytes or more and numbered 1 to "
    f"{MAX_KEY_NUMBER}, the one for new tokens first; make one with `{NEW_KEY}`"
)


class Secret:
    """Bytes or text that show themselves to nobody by accident."""

    __slots__ = ("_content",)

    def __init__(self, content: str | bytes) -> None:
        self._content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("A secret is not to be pickled.")

    def revealed(self) -> str:
        """The text, for the one whose it is."""
        return self._content.decode()

    def hash_of(self, text: Secret) -> str:
        """The hash of a text that nobody can make without this key."""
        return hmac.new(self._content, text._content, "sha256").hexdigest()

    def mac_of(self, content: bytes) -> bytes:
        """What proves that whoever made this content had the key."""
        return hmac.digest(self._content, content, "sha256")


class Key(NamedTuple):
    """A key, and the number by which tokens name it."""

    number: int
    secret: Secret


class KeyRing(tuple[Key, ...]):
    """Keys by which tokens are known again; new ones are made with the first."""

    __slots__ = ()

    def hash_of(self, token: ShownToken) -> str | None:
        """What is stored of a token; None when its key is not known here."""
        for key in self:
            if key.number == token.key_number:
                return key.secret.hash_of(token.text)
        return None

    def proves(self, token: ShownCallback) -> bool:
        """Whether a callback token was made with one of these keys, for just what it names."""
        return any(
            key.number == token.key_number and hmac.compare_digest(key.secret.mac_of(token.named), token.mac)
            for key in self
        )


class ShownToken(NamedTuple):
    """A token that somebody shows: the review that it names, the number of its key, and its text."""

    review_id: ReviewId
    key_number: int
    text: Secret


def new_token(review_id: ReviewId, key: Key) -> tuple[str, str]:
    """A token for a review, and the hash of it that may be stored."""
    address = UUID(review_id.run_id).bytes + review_id.wait_id.to_bytes(4, "big")
    content = address + bytes([key.number]) + secrets.token_bytes(RANDOM_BYTES)
    token = PREFIX + base64.urlsafe_b64encode(content).rstrip(b"=").decode()
    return token, key.secret.hash_of(Secret(token))


def shown_token(text: object) -> ShownToken | None:
    """The token that somebody gave; None when it is none. Raises nothing, so that no traceback can hold it."""
    secret = text if isinstance(text, Secret) else Secret(text if isinstance(text, str) else "")
    content = _content_of(secret._content)
    if content is None:
        return None
    run_id = RunId(str(UUID(bytes=content[:16])))
    wait_id, key_number = int.from_bytes(content[16:_ADDRESS_BYTES], "big"), content[_ADDRESS_BYTES]
    if wait_id > MAX_WAIT_ID:
        return None
    return ShownToken(ReviewId(run_id, wait_id), key_number, secret)


def _content_of(text: bytes) -> bytes | None:
    body = text.removeprefix(PREFIX.encode())
    if len(text) != _TEXT_LENGTH or len(body) == len(text):
        return None
    try:
        return base64.b64decode(body + b"=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        return None


class ShownCallback(NamedTuple):
    """A callback token that somebody shows: what it names, and what proves that it was handed out."""

    run_id: RunId
    generation: int
    call: CallId
    expires_at: Instant
    key_number: int
    named: bytes
    mac: bytes

    def __repr__(self) -> str:
        return "<callback token>"


# Run, generation, when it expires, and the number of the key; then what proves it, and the address of the call.
_NAMED = struct.Struct(">16sIQB")
_MAC_BYTES = 32
# Hashes of resume tokens are made with the same keys.
_CALLBACKS_ONLY = b"callback:"


def new_callback(run_id: RunId, generation: int, call: CallId, expires_at: Instant, key: Key) -> str:
    """A token to call a step back with; nothing of it need be stored, as nobody can make one without the key."""
    head = _NAMED.pack(UUID(run_id).bytes, generation, expires_at, key.number)
    address = json.dumps(call, separators=(",", ":")).encode()
    mac = key.secret.mac_of(_CALLBACKS_ONLY + head + address)
    return CALLBACK_PREFIX + base64.urlsafe_b64encode(head + mac + address).rstrip(b"=").decode()


def shown_callback(text: object) -> ShownCallback | None:
    """The callback token that somebody gave; None when it is none. Raises nothing, so that no traceback can hold it."""
    given = text if isinstance(text, str) else text.revealed() if isinstance(text, Secret) else ""
    body = given.removeprefix(CALLBACK_PREFIX)
    try:
        content = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        run, generation, expires_at, number = _NAMED.unpack_from(content)
        mac, address = content[_NAMED.size :][:_MAC_BYTES], content[_NAMED.size + _MAC_BYTES :]
        path, name, nth = json.loads(address)
    except (ValueError, struct.error, TypeError):
        return None
    # One token has one form.
    if given != CALLBACK_PREFIX + base64.urlsafe_b64encode(content).rstrip(b"=").decode():
        return None
    named = _CALLBACKS_ONLY + content[: _NAMED.size] + address
    run_id = RunId(str(UUID(bytes=run)))
    return ShownCallback(run_id, generation, CallId(path, name, nth), Instant(expires_at), number, named, mac)


def read_keys(text: str) -> KeyRing:
    """Keys as people write them; whatever is wrong with them raises ValueError, which does not tell what they are."""
    keys = KeyRing(_read_key(part.strip()) for part in text.split(","))
    if len({key.number for key in keys}) != len(keys):
        raise ValueError("two keys have one number")
    return keys


def _read_key(text: str) -> Key:
    number, separator, content = text.partition(":")
    if not separator or not number.isascii() or not number.isdigit() or not 1 <= int(number) <= MAX_KEY_NUMBER:
        raise ValueError("a key has no number")
    try:
        key = base64.b64decode(content, validate=True)
    except ValueError:
        raise ValueError("a key is not base64") from None
    if len(key) < MIN_KEY_BYTES:
        raise ValueError("a key is too short")
    return Key(int(number), Secret(key))


def fresh_keys() -> KeyRing:
    """A key that nobody else has."""
    return KeyRing([Key(1, Secret(secrets.token_bytes(MIN_KEY_BYTES)))])


class GivenKeys:
    """The keys that somebody has set."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys

    def for_new(self) -> KeyRing:
        """The keys, where a token is to be made."""
        return self._keys

    def for_old(self) -> KeyRing:
        """The keys, where a token is shown."""
        return self._keys


class NoKeys:
    """Nobody has set keys, and there is no place of our own to keep one that all processes see."""

    def for_new(self) -> KeyRing:
        raise Invalid(
            "Resume tokens need a key that all processes share: set STEPFAST_TOKEN_KEYS, the same for each of them. "
            f"Make one with: {NEW_KEY}"
        )

    for_old = for_new


class KeyFile:
    """A key in a file beside a SQLite database, made when the first token is."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def for_new(self) -> KeyRing:
        found = self.for_old()
        if not found:
            self._make()
            found = self.for_old()
        return found

    def for_old(self) -> KeyRing:
        try:
            text = self._path.read_text(encoding="ascii")
        except FileNotFoundError:
            return KeyRing()
        except (OSError, UnicodeDecodeError) as problem:
            raise self._unusable(type(problem).__name__) from None
        try:
            return read_keys(text)
        except ValueError as problem:
            raise self._unusable(str(problem)) from None

    def _make(self) -> None:
        """Put a key into place whole, and never over one that another process has put there meanwhile."""
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}")
        try:
            self._write(draft)
            try:
                os.link(draft, self._path)
            except FileExistsError:
                pass
            finally:
                os.unlink(draft)
            _flush_folder(self._path.parent)
        except OSError as problem:
            raise self._unusable(f"{type(problem).__name__}: {problem.strerror}") from None

    def _write(self, draft: Path) -> None:
        key = base64.b64encode(secrets.token_bytes(MIN_KEY_BYTES))
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, b"1:" + key)
            os.fsync(file)
        finally:
            os.close(file)

    def _unusable(self, why: str) -> StoreUnusable:
        return StoreUnusable(
            f"The key for resume tokens in {self._path} cannot be used ({why}). Put the file back by a backup, or set "
            "STEPFAST_TOKEN_KEYS; tokens that were made with a lost key work no more."
        )


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


TokenKeys = GivenKeys | NoKeys | KeyFile
