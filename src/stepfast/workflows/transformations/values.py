"""What transformations are given and give: assets with their content, and what was made of them until it counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NotRequired

# pydantic, which reads these, knows only this one before Python 3.12.
from typing_extensions import TypedDict

from stepfast.kernel.assets import check_size, write_item
from stepfast.kernel.blobs import Reference
from stepfast.kernel.errors import Invalid
from stepfast.kernel.reviews import ItemKind
from stepfast.kernel.texts import MAX_TEXT, check_texts, shown
from stepfast.workflows.content import Content

MAX_SHOWN = 16 * 1024
"""Bytes of a text that are told beside what is known of it, for people and policies."""


class Source(NamedTuple):
    """An asset as a transformation is given it: what is known of it, and its content."""

    id: str
    version: int
    uri: str
    media_type: str
    metadata: Mapping[str, Any]
    tags: tuple[str, ...]
    content: bytes

    @property
    def text(self) -> str:
        """The content as text."""
        return self.content.decode()


@dataclass(frozen=True, slots=True)
class Derived:
    """What a transformation has made: the content of an asset, and what is to be known of it.

    Without an `id` the asset is called after the first source and `name`, as in `contract/summary`. `confidence` goes
    from 0 to 1; `review_required` has a person look before it counts.
    """

    content: Content
    media_type: str | None = None
    id: str | None = None
    name: str | None = None
    metadata: Mapping[str, Any] | None = None
    tags: Iterable[str] | None = None
    confidence: float = 1.0
    review_required: bool = False


class OutputTold(TypedDict):
    """One output as formulas, policies and people see it; `version` and `uri` are known once it counts."""

    id: str
    name: str
    media_type: str
    metadata: dict[str, Any]
    tags: list[str]
    confidence: float
    review_required: bool
    size: int
    digest: str
    content: str | None
    version: NotRequired[int]
    uri: NotRequired[str]


class DerivationTold(TypedDict):
    """What the run of a transformation gives: who made what of which versions."""

    transformation: str
    version: int
    run_id: str
    generation: int
    step: str
    attempt: int
    inputs: list[str]
    confidence: float
    review_required: bool
    reason: str
    outputs: list[OutputTold]


class Derivation(dict[str, Any]):
    """The same, and nothing of it counts yet: its assets are made when policies and people let them."""

    @property
    def reason(self) -> str:
        """Why a person is to look at it."""
        return str(self.get("reason") or ItemKind.REVIEW_REQUIRED.value)

    @property
    def correction(self) -> dict[str, Any]:
        """What a person may put in its place, as a schema; the rest of it stays as it is."""
        return _correction(len(self["outputs"]))

    def corrected(self, value: Any) -> Derivation:
        """With what a person has put in the place of contents, metadata and tags."""
        told = value.get("outputs") if isinstance(value, Mapping) else None
        if not isinstance(told, Sequence) or len(told) != len(self["outputs"]):
            raise Invalid(f"The correction is {shown(value)}; give `outputs` with {len(self['outputs'])} of them.")
        outputs = [_corrected(known, given) for known, given in zip(self["outputs"], told, strict=True)]
        return Derivation({**self, "outputs": outputs})


def writes_of(told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What would come of a derivation, as policies see it."""
    for output in told["outputs"]:
        content = Reference(output["digest"], output["size"])
        yield write_item(output["id"], output["media_type"], output["tags"], output["metadata"], content)


def _correction(outputs: int) -> dict[str, Any]:
    tag = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT, "pattern": r"^[^\u0000]+$"}
    given = {
        "content": {"type": ["string", "null"]},
        "metadata": {"type": "object"},
        "tags": {"type": "array", "items": tag},
    }
    several = {"type": "array", "minItems": outputs, "maxItems": outputs}
    told = {**several, "items": {"type": "object", "properties": given}}
    return {"type": "object", "required": ["outputs"], "properties": {"outputs": told}}


def _corrected(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: given[name] for name in ("metadata", "tags") if name in given}
    check_texts(f"The tags of the corrected output {known['id']!r}", said.get("tags", ()))
    text = given.get("content")
    if text is None or text == known["content"]:
        return {**known, **said}
    content = text.encode()
    check_size(f"The corrected output {known['id']!r}", len(content))
    digest = hashlib.sha256(content).hexdigest()
    return {**known, **said, "content": text, "size": len(content), "digest": digest, "corrected": True}
