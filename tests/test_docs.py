"""Every page's code runs as printed, and every page that is made from the code is fresh."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.generate_docs import GENERATORS, ROOT
from tools.pages import blocks

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DISK = Path("/var/tmp")
RUNNABLE = {"python", "console", "sh"}


def run_page(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("STEPFAST_")}
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "run_page.py", page], cwd=folder, env=settings, capture_output=True, text=True
    )


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk: pages show what is said of databases that lie on one, and those of tests may be in memory."""
    with tempfile.TemporaryDirectory(prefix="stepfast-", dir=DISK if DISK.is_dir() else None) as folder:
        yield Path(folder)


def has_code(page: Path) -> bool:
    return any(block.language in RUNNABLE for block in blocks(page))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if has_code(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_runs_as_printed(page, disk):
    done = run_page(page, disk)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", GENERATORS, ids=lambda path: path.name)
def test_a_generated_page_says_what_the_code_says(path):
    assert path.read_text() == GENERATORS[path](), "Run `make docs`."


def test_every_line_of_a_generated_table_stands_there_once():
    rows = [line for line in (ROOT / "docs" / "reference" / "errors.md").read_text().splitlines() if "`E-" in line]
    assert sorted(rows) == sorted({*rows})


GOOD_PAGES = {
    "blocks share a namespace": "```python\nword = 'held'\n```\n\n```python\nassert word == 'held'\n```\n",
    "a saved file is run": "```python\n# app.py\nprint('held')\n```\n\n```console\n$ python app.py\nheld\n```\n",
    "dots stand for anything": "```console\n$ python -c 'print(\"run 17 held\")'\nrun ... held\n```\n",
    "a foreign command is not run": "```console\n$ no-such-program\n```\n",
    "a marked fragment is not run": "<!-- not run: needs a server -->\n```console\n$ python absent.py\n```\n",
}

BAD_PAGES = {
    "a block that raises": ("```python\nraise ValueError('broken')\n```\n", "broken"),
    "a block in a list that raises": ("- see:\n\n  ```python\n  raise ValueError('broken')\n  ```\n", "broken"),
    "a command that fails": ("```console\n$ python absent.py\n```\n", "ended with 2"),
    "a second command that fails": ("```console\n$ python -c 1\n$ python absent.py\n```\n", "ended with 2"),
    "output that differs": ("```console\n$ python -c 'print(1)'\n2\n```\n", "the page shows"),
    "a saved file that nobody runs": ("```python\n# app.py\nprint(1)\n```\n", "no later block uses it"),
    "Python marked as not run": ("<!-- not run: slow -->\n```python\nprint(1)\n```\n", "always run"),
}


@pytest.mark.parametrize("text", GOOD_PAGES.values(), ids=GOOD_PAGES)
def test_a_true_page_passes(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    done = run_page(page, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("text", "complaint"), BAD_PAGES.values(), ids=BAD_PAGES)
def test_a_false_page_fails_and_says_why(text, complaint, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    done = run_page(page, tmp_path)
    assert done.returncode == 1
    assert complaint in done.stderr


def test_a_traceback_shows_the_line_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nfine = 1\nraise ValueError\n```\n")
    assert f'File "{page}", line 5' in run_page(page, tmp_path).stderr
