"""Packages with entry points, as pip would have laid them out on disk."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent


def write_package(site: Path, name: str, entry_points: str, **modules: str) -> None:
    """A distribution with these modules, and these lines in its entry_points.txt."""
    info = site / f"{name}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(dedent(entry_points))
    for module, code in modules.items():
        (site / f"{module}.py").write_text(dedent(code))
