"""Examples in a test's hands: copied to a folder of their own, and imported from there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from tools.generate_docs import ROOT

EXAMPLES = ROOT / "examples"

Imported = Callable[[str], ModuleType]


def copied(name: str, to: Path) -> Path:
    """An example in a folder of its own, and nothing else."""
    shutil.copytree(EXAMPLES / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    return to / name


def settings(**given: str) -> dict[str, str]:
    """The surroundings of a process that has no settings but these."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STEPFAST_")} | given


def run_readme(folder: Path) -> subprocess.CompletedProcess[str]:
    """Do what the page of an example says, in its folder."""
    command = [sys.executable, str(ROOT / "tools" / "run_page.py"), "README.md"]
    return subprocess.run(command, cwd=folder, env=settings(), capture_output=True, text=True)
