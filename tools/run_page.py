"""Run the code of one page in the current folder, as a reader would: `python tools/run_page.py README.md`.

Python blocks share one namespace, in order. A block whose first line is a comment with a file's name is saved under
that name instead, and a later block must use it; so is a block of YAML. In console blocks the commands `stepfast` and
`python` are run, and what they print must match the lines below them, where `...` stands for anything.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.pages import Block, blocks

_FILE_NAME = re.compile(r"# ([\w/]+\.(?:py|yaml|json))\n")
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_OURS = ("stepfast", "python")
_MATCHING = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_COMMAND_SECONDS = 60


class PageWrong(Exception):
    """What the page shows is not what happens."""


def run_page(page: Path) -> None:
    """Run every block of the page; the first that does not hold raises."""
    namespace = _main_module()
    remaining = blocks(page)
    while remaining:
        block = remaining.pop(0)
        _run_block(block, f"{page}:{block.line}", namespace, remaining)


def _main_module() -> dict[str, object]:
    # A module of its own name, so that classes and type hints of the page resolve as in a program.
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    return module.__dict__


def _run_block(block: Block, where: str, namespace: dict[str, object], later: list[Block]) -> None:
    if block.language == "python":
        _run_python(block, where, namespace, later)
    elif block.language == "yaml":
        if named := _FILE_NAME.match(block.text):
            _save(block, where, named[1], later)
    elif block.language in ("console", "sh") and not block.not_run:
        _run_commands(block, where)


def _run_python(block: Block, where: str, namespace: dict[str, object], later: list[Block]) -> None:
    if block.not_run:
        raise PageWrong(f"{where}: Python is always run; remove the mark, or show the block as text.")
    if named := _FILE_NAME.match(block.text):
        _save(block, where, named[1], later)
    else:
        path, line = where.rsplit(":", 1)
        # Empty lines in front make a traceback show the page's own line numbers.
        exec(compile("\n" * (int(line) - 1) + block.text, path, "exec"), namespace)


def _save(block: Block, where: str, name: str, later: list[Block]) -> None:
    used = re.compile(rf"\b{re.escape(Path(name).stem)}\b")
    if not any(used.search(other.text) for other in later):
        raise PageWrong(f"{where}: {name} is saved, but no later block uses it. Show how it is run.")
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(block.text)


def _run_commands(block: Block, where: str) -> None:
    for command, shown in _COMMAND.findall(block.text.replace("\\\n", "")):
        if command.split()[0] in _OURS:
            _run_command(command, shown, where)


def _run_command(command: str, shown: str, where: str) -> None:
    done = subprocess.run(
        command,
        shell=True,
        env=_environment(),
        text=True,
        timeout=_COMMAND_SECONDS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        raise PageWrong(f"{where}: `{command}` ended with {done.returncode}:\n{done.stdout}")
    if shown.strip() and not doctest.OutputChecker().check_output(shown, done.stdout, _MATCHING):
        raise PageWrong(f"{where}: `{command}` printed\n{done.stdout}\nbut the page shows\n{shown}")


def _environment() -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120", "NO_COLOR": "1"}


if __name__ == "__main__":
    page = Path(sys.argv[1])
    sys.path[:2] = [str(Path.cwd())]
    try:
        run_page(page)
    except PageWrong as wrong:
        sys.exit(str(wrong))
