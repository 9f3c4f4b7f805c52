"""House rules that no ready-made checker knows; run by `make check`.

Each rule looks at one file and yields what is wrong with it, as a line number and a sentence.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

from tools.generate_docs import GENERATORS, ROOT
from tools.pages import anchors, links

Complaints = Iterator[tuple[int, str]]
Rule = Callable[[Path], Complaints]

KERNEL_LINES = 300
MODULE_LINES = 500

_UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
_SILENCED = re.compile(r"#\s*type:\s*ignore")
_MACHINE = re.compile(
    r"(?<![\w.])/(?:work|root|home|Users)/"
    r"|/opt/(?:pypi|wheels)"
    r"|\bfind-links\b|\bindex-url\b"
    r"|\b(?:pypi\.org/simple|files\.pythonhosted\.org|registry\.npmjs\.org)\b"
)
_AVOIDED_TESTS = {"skip", "skipif", "xfail", "importorskip", "skipUnless", "skipIf", "expectedFailure"}
_TEST_TOOLS = {"pytest", "mark", "unittest"}


def stays_short(path: Path) -> Complaints:
    allowed = KERNEL_LINES if "kernel" in path.parts else MODULE_LINES
    lines = len(path.read_text().splitlines())
    if lines > allowed:
        yield lines, f"{lines} lines, where {allowed} are allowed; look for a second noun."


def is_finished(path: Path) -> Complaints:
    for number, found in _matches(_UNFINISHED, path):
        yield number, f"{found} in the product; finish it or leave it out."


def satisfies_the_type_checker(path: Path) -> Complaints:
    for number, _ in _matches(_SILENCED, path):
        yield number, "the type checker is silenced; give it the type it misses."


def names_no_machine(path: Path) -> Complaints:
    for number, found in _matches(_MACHINE, path):
        yield number, f"{found!r} is true on one machine only."


def runs_every_test(path: Path) -> Complaints:
    for node in _nodes(path):
        if isinstance(node, ast.Attribute) and node.attr in _AVOIDED_TESTS and _name(node.value) in _TEST_TOOLS:
            yield node.lineno, f"{node.attr}: a test that does not run proves nothing."


def does_not_sleep(path: Path) -> Complaints:
    for node in _nodes(path):
        if isinstance(node, ast.Call) and _is_sleep(node.func) and not _is_zero(node.args):
            yield (
                node.lineno,
                "a test that sleeps is slow, and wrong one day in ten; advance the clock or wait for a fact.",
            )
        if isinstance(node, ast.ImportFrom) and node.module in {"time", "asyncio"} and "sleep" in _imported(node):
            yield node.lineno, f"call it as {node.module}.sleep, so that it can be seen."


def has_links_that_resolve(path: Path) -> Complaints:
    for number, link in links(path):
        if not re.match(r"[a-z]+:", link) and not _resolves(path, unquote(link)):
            yield number, f"the link to {link} leads nowhere."


def is_fresh(path: Path) -> Complaints:
    if path in GENERATORS and path.read_text() != GENERATORS[path]():
        yield 1, "differs from the code; run `make docs`."


RULES: dict[str, tuple[Rule, ...]] = {
    "*": (names_no_machine,),
    "src/**/*.py": (stays_short, is_finished, satisfies_the_type_checker),
    "src/**/*.sql": (is_finished,),
    "tests/**/*.py": (runs_every_test, does_not_sleep),
    "**/*.md": (has_links_that_resolve, is_fresh),
}


def complaints(path: Path, rules: tuple[Rule, ...]) -> Iterator[str]:
    """What the given rules have against a file, each as `path:line: sentence`."""
    for rule in rules:
        for number, sentence in rule(path):
            yield f"{path.relative_to(ROOT)}:{number}: {sentence}"


def main() -> None:
    files = _own_files()
    found = [f"{page.relative_to(ROOT)}:1: is missing; run `make docs`." for page in GENERATORS if page not in files]
    for pattern, rules in RULES.items():
        chosen = files if pattern == "*" else files & set(ROOT.glob(pattern))
        found += [line for path in sorted(chosen) for line in complaints(path, rules)]
    sys.exit("\n".join(found) or None)


def _own_files() -> set[Path]:
    """All text files that are in the repository or would be after `git add --all`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return {path for name in names if name and _is_text(path := ROOT / name)}


def _is_text(path: Path) -> bool:
    return path.is_file() and b"\0" not in path.read_bytes()


def _matches(pattern: re.Pattern[str], path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        for match in pattern.finditer(line):
            yield number, match[0]


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_sleep(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and called.attr == "sleep" and _name(called.value) in {"time", "asyncio"}


def _is_zero(args: list[ast.expr]) -> bool:
    return bool(args) and isinstance(args[0], ast.Constant) and args[0].value == 0


def _imported(node: ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}


def _resolves(page: Path, link: str) -> bool:
    name, _, fragment = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    return target.exists() and (not fragment or target.suffix != ".md" or fragment in anchors(target))


if __name__ == "__main__":
    main()
