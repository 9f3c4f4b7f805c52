"""Environments of the peers: each in a folder of its own below a cache, made when first needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.processes import Unmeasured

HOME_VARIABLE = "STEPFAST_BENCH_HOME"
STAMP = ".stepfast-bench"


def home() -> Path:
    """The folder that keeps what was installed for the peers."""
    given = os.environ.get(HOME_VARIABLE)
    return Path(given) if given else Path.home() / ".cache" / "stepfast-bench"


def python_with(name: str, packages: tuple[str, ...]) -> str:
    """The interpreter of an environment that has these packages."""
    folder = home() / name
    python = folder / "bin" / "python"
    if not _is_made_of(folder, packages):
        _run(sys.executable, "-m", "venv", folder)
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
        _note_made_of(folder, packages)
    return str(python)


def program_of(name: str, package: str, program: str) -> str:
    """A program of a package for Node.js."""
    folder = home() / name
    if not _is_made_of(folder, (package,)):
        folder.mkdir(parents=True, exist_ok=True)
        _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, package)
        _note_made_of(folder, (package,))
    return str(folder / "node_modules" / ".bin" / program)


def _is_made_of(folder: Path, packages: tuple[str, ...]) -> bool:
    stamp = folder / STAMP
    return stamp.exists() and stamp.read_text() == "\n".join(packages)


def _note_made_of(folder: Path, packages: tuple[str, ...]) -> None:
    (folder / STAMP).write_text("\n".join(packages))


def _run(*command: object) -> None:
    try:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    except FileNotFoundError:
        raise Unmeasured(f"{command[0]} is not installed.") from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Unmeasured(f"{' '.join(map(str, command))} ended with {done.returncode}: {''.join(reason)}")
