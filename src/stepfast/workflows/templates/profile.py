"""The profile of YAML that templates are written in: YAML 1.2 without what surprises people or costs too much."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stepfast.kernel.texts import shown
from stepfast.workflows.templates.nodes import NOWHERE, Document, Mark, Node, mark_at
from stepfast.workflows.templates.problems import Path, Problem, named
from stepfast.workflows.templates.scalars import MAX_DIGITS, NoNumber, resolved

MAX_BYTES = 1_000_000
MAX_DEPTH = 64
MAX_NODES = 250_000

# What no text may hold, by YAML or by any store; and three line ends of YAML 1.1 that 1.2 takes for plain characters.
_REFUSED = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
# A pair of surrogates in JSON's escapes; YAML knows them only as \U0001F600.
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


class Unreadable(Exception):
    """A text of which nothing can be built."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def read_text(text: str, name: str) -> tuple[Document, list[Problem]]:
    """The parts of a text, and where it leaves the profile; raises Unreadable where nothing can be made of it."""
    text = text.removeprefix("\ufeff")
    _check_size(len(text.encode("utf-8", "surrogatepass")), name)
    refused = _REFUSED.search(text)
    if refused is not None:
        mark = mark_at(text, refused.start())
        message = f"the character U+{ord(refused[0]):04X} cannot stand in a template"
        raise Unreadable(_at(name, mark, message, "Leave it out, or write it as an escape in double quotes"))
    return _Reader(text, name).read()


def _check_size(size: int, name: str) -> None:
    if size > MAX_BYTES:
        raise Unreadable(too_large(size, name))


def too_large(size: int, name: str) -> Problem:
    """The fault of a text that is too long to be read at all."""
    message = f"the template has {size:,} bytes; allowed are {MAX_BYTES:,}"
    return Problem("limits", (), message, "Split it into several workflows that run each other", file=name)


def _at(name: str, mark: Mark, message: str, hint: str = "", path: Path = ()) -> Problem:
    return Problem("yaml", path, message, hint, file=name, line=mark.line, column=mark.column)


class _Open:
    """A map or list whose end has not come yet."""

    __slots__ = ("is_lost", "key", "key_mark", "node", "part")

    def __init__(self, node: Node, part: str | int | None, is_lost: bool) -> None:
        self.node = node
        self.part = part
        self.is_lost = is_lost
        """Whether it is read for its faults alone, as the key of it cannot be used."""
        self.key: str | None = None
        self.key_mark: Mark | None = None


class _SecondDocument(Exception):
    """Nothing behind this point counts."""


class _Reader:
    """Builds the parts of a text from the events of PyYAML's parser, which are all that is used of it."""

    def __init__(self, text: str, name: str) -> None:
        import yaml

        self._takers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar_event,
            yaml.MappingStartEvent: self._map_event,
            yaml.MappingEndEvent: self._end_event,
            yaml.SequenceStartEvent: self._list_event,
            yaml.SequenceEndEvent: self._end_event,
            yaml.AliasEvent: self._alias_event,
            yaml.DocumentStartEvent: self._document_event,
        }
        self._text = text
        self._name = name
        self._problems: list[Problem] = []
        self._open: list[_Open] = []
        self._root: Node | None = None
        self._nodes = 0
        self._originals = _is_json_with_pairs(text)

    def read(self) -> tuple[Document, list[Problem]]:
        import yaml

        try:
            for event in _events(self._tamed()):
                self._take(event)
        except _SecondDocument:
            pass
        except yaml.YAMLError as error:
            raise Unreadable(self._syntax(error)) from None
        if self._root is None:
            raise Unreadable(_at(self._name, Mark(0, 1, 1), "the template is empty", "Begin with `stepfast: 1`"))
        return Document(self._name, self._root, self._text), self._problems

    def _tamed(self) -> str:
        """The text for the parser: pairs of surrogates made something of the same length that it accepts."""
        return _PAIR.sub(r"\\u0000\\u0000", self._text) if self._originals else self._text

    def _syntax(self, error: Any) -> Problem:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = getattr(error, "problem", None) or "it cannot be read"
        context = getattr(error, "context", None)
        place = Mark(0, 1, 1) if mark is None else Mark(mark.index, mark.line + 1, mark.column + 1)
        return _at(self._name, place, f"this is no YAML: {f'{context}, ' if context else ''}{what}", _advice(what))

    def _take(self, event: Any) -> None:
        take = self._takers.get(type(event))
        if take is not None:
            take(event)

    def _scalar_event(self, event: Any) -> None:
        self._count(event)
        self._note_extras(event)
        self._scalar(event)

    def _map_event(self, event: Any) -> None:
        self._begin(event, {})

    def _list_event(self, event: Any) -> None:
        self._begin(event, [])

    def _end_event(self, event: Any) -> None:
        self._open.pop().node.end = event.end_mark.index

    def _alias_event(self, event: Any) -> None:
        self._count(event)
        message = f"the alias *{event.anchor[:60]} stands for another part"
        self._note(event, message, "Write the part out where it is needed")
        self._put(event, Node(_mark(event), None, event.end_mark.index))

    def _document_event(self, event: Any) -> None:
        if self._root is not None:
            self._note(event, "a second document begins here", "A file holds one template")
            raise _SecondDocument
        if event.version not in (None, (1, 2)):
            told = ".".join(map(str, event.version))
            self._note(event, f"the file says it is YAML {told}, and is read as YAML 1.2", "Leave out the line")
        if event.tags:
            self._note(event, "the line %TAG gives names to tags, of which there are none", "Leave it out")

    def _count(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise Unreadable(_limit(self._name, _mark(event), f"the template has more than {MAX_NODES:,} values"))

    def _note_extras(self, event: Any) -> None:
        if event.anchor is not None:
            message = f"the anchor &{event.anchor[:60]} gives a part a second name"
            self._note(event, message, "Leave it out, and write the part out where it is needed")
        if event.tag is not None:
            self._note(event, f"the tag {named(event.tag)} makes something else of a value", "Leave it out")

    def _note(self, event: Any, message: str, hint: str = "") -> None:
        self._problems.append(_at(self._name, _mark(event), message, hint, self._path()))

    def _path(self) -> Path:
        parts = [*(each.part for each in self._open[1:]), self._part()]
        return tuple(part for part in parts if part is not None)

    def _part(self) -> str | int | None:
        """What the next value is in that in which it stands."""
        if not self._open:
            return None
        last = self._open[-1]
        return last.key if isinstance(last.node.content, dict) else len(_items(last))

    def _begin(self, event: Any, content: dict[str, Node] | list[Node]) -> None:
        self._count(event)
        self._note_extras(event)
        if len(self._open) >= MAX_DEPTH:
            message = f"the template is nested more than {MAX_DEPTH} levels deep"
            raise Unreadable(_limit(self._name, _mark(event), message))
        node = Node(_mark(event), content, event.end_mark.index)
        part = self._part()
        is_lost = not self._put(event, node)
        self._open.append(_Open(node, part, is_lost))

    def _scalar(self, event: Any) -> None:
        text = self._scalar_text(event)
        is_plain = event.style in ("", None) and event.tag is None
        if self._wants_key():
            self._take_key(event, text, is_plain)
            return
        self._put(
            event, Node(_mark(event), self._value(event, text, is_plain), event.end_mark.index, event.style or "")
        )

    def _value(self, event: Any, text: str, is_plain: bool) -> Any:
        if "\0" in text:
            self._note(event, "a NUL character cannot be stored", "Leave it out")
            return text.replace("\0", "")
        if not is_plain:
            return text
        try:
            return resolved(text)
        except NoNumber as error:
            self._note(event, str(error), "Put it in quotes if it is text")
            return None

    def _scalar_text(self, event: Any) -> str:
        value: str = event.value
        if self._originals and "\0" in value and event.style == '"':
            return str(json.loads(self._text[event.start_mark.index : event.end_mark.index]))
        return value

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].node.content, dict) and self._open[-1].key_mark is None

    def _take_key(self, event: Any, text: str, is_plain: bool) -> None:
        top = self._open[-1]
        assert isinstance(top.node.content, dict)
        top.key_mark = _mark(event)
        fault = self._fault_of_key(text, is_plain, top)
        if fault is not None:
            self._note(event, *fault)
            top.key = None
            return
        top.key = text
        top.node.keys[text] = top.key_mark

    def _fault_of_key(self, text: str, is_plain: bool, top: _Open) -> tuple[str, str] | None:
        if is_plain and text == "<<":
            return "the merge key << draws another map in", "Write its keys out"
        if is_plain and not _is_text(text):
            return f"the key {named(text)} is no text", "Put it in quotes"
        if "\0" in text:
            return "a NUL character cannot stand in a key", "Leave it out"
        if text in top.node.keys:
            first = top.node.keys[text].line
            return f"the key {named(text)} is here a second time; the first is in line {first}", "Remove one of them"
        return None

    def _put(self, event: Any, node: Node) -> bool:
        """Add a value to what it stands in; False if it has no place there."""
        if not self._open:
            self._root = self._root or node
            return True
        top = self._open[-1]
        if isinstance(top.node.content, list):
            top.node.content.append(node)
            return not top.is_lost
        if top.key_mark is None:
            self._note(event, "the key is no text, but a map or a list", "Keys are texts")
            top.key_mark = _mark(event)
            return False
        key, top.key, top.key_mark = top.key, None, None
        if key is None:
            return False
        assert isinstance(top.node.content, dict)
        top.node.content[key] = node
        return not top.is_lost


def _items(opened: _Open) -> list[Node]:
    assert isinstance(opened.node.content, list)
    return opened.node.content


def _events(text: str) -> Iterator[Any]:
    import yaml

    # Without the C library PyYAML has the same parser in Python, twenty times slower.
    make = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = make(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _mark(event: Any) -> Mark:
    mark = event.start_mark
    return Mark(mark.index, mark.line + 1, mark.column + 1)


def _limit(name: str, mark: Mark, message: str) -> Problem:
    return _at(name, mark, message, "Split it into several workflows that run each other")._replace(found_by="limits")


def _is_text(text: str) -> bool:
    try:
        return isinstance(resolved(text), str)
    except NoNumber:
        return False


def _is_json_with_pairs(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")) or not _PAIR.search(text):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


_ADVICE = {
    "cannot start any token": "A tab cannot indent, and text that begins with @ or ` needs quotes",
    "mapping values are not allowed": "Text with a colon and a blank in it needs quotes",
    "did not find expected": "Look at the indentation, and at quotes and brackets that are not closed",
    "could not find expected ':'": "A key ends with a colon; look at the indentation",
    "escape code": "Write such a character itself, or as \\U0001F600",
    "found unknown escape": "In double quotes a backslash is written twice; or use single quotes",
}


def _advice(what: str) -> str:
    return next((advice for part, advice in _ADVICE.items() if part in what), "")


def of_data(data: Any, name: str) -> tuple[Document, list[Problem]]:
    """The parts of a template that came as data; raises Unreadable where it is too much, or no JSON at all."""
    return Document(name, _DataReader(name).read(data, (), 0)), []


class _DataReader:
    """Builds the parts of data; they have no places."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes = 0

    def read(self, value: Any, path: Path, depth: int) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise Unreadable(_limit(self._name, NOWHERE, f"the template has more than {MAX_NODES:,} values"))
        if isinstance(value, Mapping | list | tuple) and depth >= MAX_DEPTH:
            message = f"the template is nested more than {MAX_DEPTH} levels deep"
            raise Unreadable(_limit(self._name, NOWHERE, message))
        if isinstance(value, Mapping):
            items = {self._key(name, path): self.read(each, (*path, name), depth + 1) for name, each in value.items()}
            return Node(NOWHERE, items)
        if isinstance(value, list | tuple):
            return Node(NOWHERE, [self.read(each, (*path, n), depth + 1) for n, each in enumerate(value)])
        return Node(NOWHERE, self._scalar(value, path))

    def _key(self, name: object, path: Path) -> str:
        if type(name) is str and not _REFUSED.search(name):
            return name
        raise self._refused(path, f"the key {shown(name)} is no text that can be stored", "Keys are texts")

    def _scalar(self, value: Any, path: Path) -> Any:
        if value is None or type(value) in (bool, int):
            if type(value) is int and abs(value) >= 10**MAX_DIGITS:
                raise self._refused(path, f"the number has more than {MAX_DIGITS} digits", "Make it a text")
            return value
        if type(value) is float and value == value and abs(value) != float("inf"):
            return value
        if isinstance(value, str) and not re.search("[\0\ud800-\udfff]", value):
            return str(value)
        raise self._refused(path, f"{shown(value)} is nothing that JSON can hold", "")

    def _refused(self, path: Path, message: str, hint: str) -> Unreadable:
        return Unreadable(_at(self._name, NOWHERE, message, hint, path))
