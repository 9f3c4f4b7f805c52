"""What Stepfast costs before it does anything: import, command line, packages, space."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.figures import Figures
from bench.processes import ROOT, Unmeasured

TIMES = 7
IMPORT = "import stepfast"
FIRST_USE = "from stepfast import Stepfast, step, workflow"
NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")


def measure() -> Figures:
    with tempfile.TemporaryDirectory(prefix="stepfast-bench-") as folder:
        programs = Path(folder, "bin")
        _run(sys.executable, "-m", "venv", folder)
        _run(programs / "pip", "install", "--quiet", "--disable-pip-version-check", ROOT)
        return {
            "import_ms": _import_ms(programs / "python", IMPORT),
            "first_use_ms": _import_ms(programs / "python", FIRST_USE),
            "help_ms": statistics.median(_timed_ms(programs / "stepfast", "--help") for _ in range(TIMES)),
            **_size(next(Path(folder).glob("lib/python*/site-packages"))),
        }


def _import_ms(python: Path, statement: str) -> float:
    code = f"import time; begun = time.perf_counter(); {statement}; print(time.perf_counter() - begun)"
    # Once more than counted: the first import compiles.
    seconds = [float(_run(python, "-c", code)) for _ in range(TIMES + 1)][1:]
    return 1_000 * statistics.median(seconds)


def _timed_ms(*command: object) -> float:
    begun = time.perf_counter()
    _run(*command)
    return 1_000 * (time.perf_counter() - begun)


def _size(packages: Path) -> Figures:
    """The distributions of an environment, and their bytes with what Python compiled, without its own tools."""
    ours = [path for path in packages.iterdir() if path.name.split("-")[0] not in NOT_OURS]
    files = [file for path in ours for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return {
        "install_packages": float(sum(path.suffix == ".dist-info" for path in ours)),
        "install_mb": sum(file.stat().st_size for file in files) / 1e6,
    }


def _run(*command: object) -> str:
    # Compiled modules are kept, as in any installation.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, cwd=ROOT.anchor)
    if done.returncode:
        raise Unmeasured(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout
