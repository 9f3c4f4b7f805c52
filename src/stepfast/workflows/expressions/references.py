"""What an expression asks its scope for."""

from __future__ import annotations

from stepfast.workflows.expressions.kinds import DENOTATIONS
from stepfast.workflows.expressions.tree import Has, Index, Macro, Name, Node, Select, children

Reference = tuple[str, ...]
"""A free name and the fields after it, as far as they are written out."""


def references_of(tree: Node) -> tuple[Reference, ...]:
    """The longest such paths, each once, in the order in which they stand."""
    found: dict[Reference, None] = {}
    _collect(tree, frozenset(), found)
    return tuple(found)


def is_path(tree: Node) -> bool:
    """Whether it is a name with fields or indexes after it, and nothing else."""
    while isinstance(tree, Select | Index):
        tree = tree.operand
    return isinstance(tree, Name) and tree.name not in DENOTATIONS


def _collect(node: Node, bound: frozenset[str], found: dict[Reference, None]) -> None:
    path = _path(node, bound)
    if path is not None:
        found.setdefault(path)
    elif isinstance(node, Macro):
        _collect(node.operand, bound, found)
        for part in (node.test, node.result):
            if part is not None:
                _collect(part, bound | {node.variable}, found)
    else:
        for child in children(node):
            _collect(child, bound, found)


def _path(node: Node, bound: frozenset[str]) -> Reference | None:
    fields: list[str] = []
    while isinstance(node, Select | Has):
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Name) or node.name in DENOTATIONS or (node.name in bound and not node.rooted):
        return None
    return (node.name, *reversed(fields))
