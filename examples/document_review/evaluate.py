"""Evaluates a document, and has a person look at the result before it counts.

`python evaluate.py letter.txt` starts it; the same command, after the process was stopped or killed, goes on with it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TypedDict

from stepfast import Rejected, ReviewInfo, RunFailed, Stepfast, review, step, workflow

EDITOR = "ann"
OUTBOX = Path("outbox")


class Evaluation(TypedDict):
    """What is found about a document: the thing that a person looks at, and may correct."""

    document: str
    words: int
    grade: str


@step
def read(path: str) -> str:
    print("reading", path, flush=True)
    return Path(path).read_text()


@step
def evaluate(path: str, text: str) -> Evaluation:
    """Stands for a model, or a long computation: something that nobody wants to pay for twice."""
    print("evaluating", path, flush=True)
    words = len(text.split())
    return Evaluation(document=path, words=words, grade="good" if words < 100 else "too long")


@step
async def tell_the_editor(info: ReviewInfo) -> None:
    """Stands for a mail: the token goes to the person, and neither into an argument nor into a result."""
    token = await app.reviews.issue_token(info["review_id"], actor=EDITOR)
    OUTBOX.mkdir(exist_ok=True)
    letter = OUTBOX / f"{EDITOR}.token"
    letter.touch(mode=0o600)
    letter.write_text(token)
    print(f"asking {EDITOR}: {info['title']}", flush=True)


@step
def publish(evaluation: Evaluation, approved_by: str | None) -> str:
    print("publishing", flush=True)
    return f"{evaluation['document']}: {evaluation['words']} words, {evaluation['grade']}, approved by {approved_by}"


@workflow
async def evaluate_document(path: str) -> str:
    text = await read.aio(path)
    evaluation = await evaluate.aio(path, text)
    answer = await review(
        f"Is this evaluation of {path} right?",
        show=evaluation,
        type=Evaluation,
        assignee=EDITOR,
        expires="7d",
        notify=tell_the_editor,
    )
    return await publish.aio(answer.value, answer.actor)


# A run whose process is killed in the middle of a step is taken up after the lease.
app = Stepfast(os.environ.get("STEPFAST_DATABASE_URL") or "sqlite:///review.db", workflows=[evaluate_document])


async def main(path: str) -> None:
    async with app:
        # The key makes the second start of this program find the run of the first.
        run = await app.start(evaluate_document, path, key=path)
        try:
            outcome = str(await run)
        except RunFailed as failure:
            outcome = "rejected" if isinstance(failure.__cause__, Rejected) else str(failure)
        # For whoever asks later how it came to this.
        Path("report.html").write_text(await app.audit.report(run.id, "html"), encoding="utf-8")
        print(outcome)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
