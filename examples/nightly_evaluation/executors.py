"""What the template calls by name: a data set in files, and something that stands for a model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypedDict

from stepfast import Domain

data, model = Domain("data"), Domain("model")

SCORES = Path(os.environ.get("SCORES", "scores"))


class Question(TypedDict):
    """One question of the data set."""

    id: str
    text: str


class DataSet(TypedDict):
    """The questions, and what their answers should be, by id."""

    questions: list[Question]
    expected: dict[str, str]


class Answer(TypedDict):
    """What the model said."""

    id: str
    text: str


class Grade(TypedDict):
    """Whether it was right."""

    id: str
    right: bool


class Change(TypedDict):
    """How much better or worse it is than the night before, in answers."""

    before: str
    change: int


@data.step("load")
def load(path: str) -> DataSet:
    """Read the data set."""
    print("loading", path, flush=True)
    lines = json.loads(Path(path).read_text())
    questions = [Question(id=line["id"], text=line["text"]) for line in lines]
    return {"questions": questions, "expected": {line["id"]: line["expected"] for line in lines}}


@model.step("answer")
async def answer(id: str, text: str) -> Answer:
    """Stands for a model: it can add, and cannot do anything else."""
    print("answering", id, flush=True)
    left, plus, right = text.partition(" + ")
    if not plus:
        raise ValueError(f"the model does not understand {text!r}")
    return {"id": id, "text": str(int(left) + int(right))}


@data.step("grade")
async def grade(answer: Answer, expected: dict[str, str]) -> Grade:
    """Compare an answer with what it should be."""
    return {"id": answer["id"], "right": expected[answer["id"]] == answer["text"]}


@data.step("keep")
def keep(score: dict[str, Any]) -> None:
    """Keep the figures of a night; keeping them again changes nothing."""
    SCORES.mkdir(exist_ok=True)
    (SCORES / f"{score['night']}.json").write_text(json.dumps(score))


@data.step("compare")
def compare(score: dict[str, Any]) -> Change:
    """Compare the figures with those of the night before."""
    earlier = sorted(file.stem for file in SCORES.glob("*.json") if file.stem < score["night"])
    if not earlier:
        raise LookupError(f"there is no night before {score['night']}")
    before = json.loads((SCORES / f"{earlier[-1]}.json").read_text())
    return {"before": earlier[-1], "change": score["right"] - before["right"]}
