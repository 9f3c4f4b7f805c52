"""Retries of a template: the step's own over those by executor over the defaults, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from stepfast.kernel.error_kinds import error_kinds
from stepfast.kernel.retry import Retry
from stepfast.workflows.templates.models import Defaults, RetryForm

T = TypeVar("T")


def retry_of(own: RetryForm | None, executor: str, defaults: Defaults) -> Retry | None:
    """The policy of a step; None where the template says nothing: that of the executor, or of the worker."""
    by_executor = most_specific(defaults.retry_by, executor)
    fields: dict[str, Any] = {}
    for form in (defaults.retry, by_executor, own):
        if form is not None:
            fields |= form.model_dump(exclude_none=True)
    for name in ("on", "never"):
        if name in fields:
            fields[name] = error_kinds(fields[name])
    return Retry(**fields) if fields else None


def most_specific(patterns: Mapping[str, T], executor: str) -> T | None:
    """The value of the pattern that says most of an executor's name."""
    found = matching(patterns, executor)
    return patterns[found[-1]] if found else None


def matching(patterns: Iterable[str], executor: str) -> list[str]:
    """The patterns that an executor's name fits, the most specific last."""
    return sorted((each for each in patterns if fnmatchcase(executor, each)), key=_weight)


def _weight(pattern: str) -> tuple[bool, int, str]:
    """A name without a wildcard is the most specific, then the pattern with the most that is no wildcard."""
    plain = pattern.replace("*", "").replace("?", "")
    return plain == pattern and "[" not in pattern, len(plain), pattern
