"""What the template calls by name: small stand-ins for a parser, a model, a registry and a check."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any, TypedDict

from stepfast import Domain, current_run, storage

docs, ai, registry, policy = Domain("docs"), Domain("ai"), Domain("registry"), Domain("policy")

REGISTRY = Path(os.environ.get("REGISTRY", "registry"))
SECONDS_A_WORD = float(os.environ.get("SECONDS_A_WORD", "0.5"))

RISKY = {"unlimited", "penalty", "sole", "irrevocable", "liability"}
MAIL = re.compile(r"\w+@\w+")


class Clause(TypedDict):
    """One numbered paragraph of a contract."""

    id: str
    text: str


class Parsed(TypedDict):
    """A contract as its clauses."""

    clauses: list[Clause]


class ScoreConfig(TypedDict):
    """How the model is asked."""

    temperature: float


class Score(TypedDict):
    """What the model thinks of a clause; `confidence` is how sure it is."""

    title: str
    risk: float
    confidence: float


class Summary(TypedDict):
    """What people look at."""

    risk: float
    text: str


class Ticket(TypedDict):
    """A place in the registry that is taken and not used yet."""

    ticket: str


class Published(TypedDict):
    """A document of the registry."""

    doc_id: str
    text: str


class Ruling(TypedDict):
    """Whether something may go out, and why not."""

    ok: bool
    reason: str


@docs.step("parse")
async def parse(uri: str) -> Parsed:
    """Take a contract apart."""
    print("parsing", uri, flush=True)
    text = (await storage.read_asset(uri)).decode()
    numbered = (re.fullmatch(r"(\d+)\. (.+)", " ".join(part.split())) for part in text.split("\n\n"))
    return {"clauses": [{"id": found[1], "text": found[2]} for found in numbered if found]}


@ai.step("score")
async def score(text: str, rubric: str, known: list[str], config: ScoreConfig) -> Score:
    """Say how risky a clause is: something that takes its time, and that nobody wants to pay for twice."""
    title, words = text.split(".")[0], re.findall(r"\w+", text.lower())
    print("scoring", title, flush=True)
    await asyncio.sleep(SECONDS_A_WORD * len(words))
    risk = min(1.0, sum(word in RISKY for word in words) / (3 if rubric == "standard" else 1))
    is_known = title.lower() in known
    vague = "reasonable" in words
    return {"title": title, "risk": risk / 2 if is_known else risk, "confidence": 0.4 if vague else 0.9}


@ai.step("summarise")
async def summarise(scores: list[Score], failed: list[dict[str, Any]]) -> Summary:
    """Put the scores together."""
    print("summarising", flush=True)
    worst = max(scores, key=lambda each: each["risk"])
    missing = f", {len(failed)} could not be scored" if failed else ""
    return {"risk": worst["risk"], "text": f"{len(scores)} clauses, the worst is {worst['title']!r}{missing}"}


@registry.step("reserve")
async def reserve() -> Ticket:
    """Take a place; the run's id makes it the same place when it is asked for again."""
    print("reserving", flush=True)
    ticket = current_run().id
    REGISTRY.mkdir(exist_ok=True)
    (REGISTRY / f"{ticket}.reserved").touch()
    return {"ticket": ticket}


@registry.step("release")
async def release(ticket: str) -> None:
    """Give the place back, and take out what is there."""
    print("releasing", flush=True)
    for file in REGISTRY.glob(f"{ticket}.*"):
        file.unlink()


@registry.step("publish")
async def publish(ticket: str, text: str) -> Published:
    """Use the place."""
    print("publishing", flush=True)
    (REGISTRY / f"{ticket}.txt").write_text(text)
    (REGISTRY / f"{ticket}.reserved").unlink(missing_ok=True)
    return {"doc_id": f"doc-{ticket}", "text": text}


@policy.step("no_pii")
async def no_pii(output: Published) -> Ruling:
    """Let nothing out that names a person's address."""
    found = MAIL.search(output["text"])
    return {"ok": found is None, "reason": f"it names {found[0]}" if found else ""}
