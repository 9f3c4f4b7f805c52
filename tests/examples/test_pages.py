"""The pages of the examples: their commands do what is printed below them."""

from __future__ import annotations

import pytest

from tests.examples.support import copied, run_readme


@pytest.mark.parametrize("name", ["invoice_approval", "nightly_evaluation", "contract_evaluation"])
def test_the_page_of_an_example_runs_as_printed(name, tmp_path):
    done = run_readme(copied(name, tmp_path))
    assert done.returncode == 0, done.stderr
