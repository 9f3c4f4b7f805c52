"""Every command that a message or a page tells people to type is there, with the options it is told with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from stepfast.cli.commands import cli
from tests.cli.processes import ROOT

QUOTED = re.compile(r"`(stepfast [^`]+)`")
SHOWN = re.compile(r"^\$ (stepfast .+)$", re.MULTILINE)
# In a message the id of a run or the name of a queue stands in braces, or is a word of capitals.
FILLED_IN = re.compile(r"\{[^}]*\}|\[[^\]]*\]")


def named_in(path: Path) -> Iterator[str]:
    # Texts that are broken into several lines in the code are one text for their reader.
    text = re.sub(r"\"\s*\n\s*f?\"", "", path.read_text())
    # What a page names as not there yet is not told to be typed.
    text = re.sub(r"not yet: `[^`]+`(, `[^`]+`)*", "", text)
    yield from QUOTED.findall(text)
    yield from SHOWN.findall(text)


def commands() -> list[tuple[str, str]]:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    found = {(str(file.relative_to(ROOT)), command) for file in files for command in named_in(file)}
    return sorted(each for each in found if "reference/cli.md" not in each[0])


def complaint_about(text: str) -> str | None:
    """What is wrong with a command as it is told; None when it would be understood."""
    words = shlex.split(FILLED_IN.sub("x", text).split("|")[0], comments=True)[1:]
    command: click.Command = cli
    context = click.Context(cli, info_name="stepfast")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return f"there is no command {words[0]!r}"
        command, words = found, words[1:]
    known = {option for param in command.get_params(context) for option in param.opts} | {"--version", "--help"}
    unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in known | {"-"}]
    return f"{command.name} has no option {unknown[0]}" if unknown else None


@pytest.mark.parametrize(("place", "command"), commands())
def test_a_command_that_people_are_told_of_exists(place, command):
    assert complaint_about(command) is None, f"{place}: {command}"


def test_a_command_that_does_not_exist_is_found():
    assert complaint_about("stepfast runs frobnicate ID") == "there is no command 'frobnicate'"
    assert complaint_about("stepfast runs rerun ID --form 3") == "rerun has no option --form"
