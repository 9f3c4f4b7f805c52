"""Templates with policies, and executors that count what they do."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from stepfast import Domain, Retry, storage
from stepfast.kernel.assets import Role
from stepfast.testing import Engine

CALLS: Counter[str] = Counter()
WORLD: dict[str, Any] = {}

ONCE = Retry(attempts=1)
docs = Domain("docs", retry=ONCE)
policy = Domain("policy", retry=ONCE)

Answer = dict[str, Any]


@docs.step("cite")
async def cite(assets: list[dict[str, Any]]) -> str:
    CALLS["cite"] += 1
    return (await storage.read_asset(assets[0])).decode()


@docs.step("say")
async def say(text: str) -> str:
    CALLS["say"] += 1
    return text


@docs.step("unsay")
async def unsay(text: str) -> None:
    CALLS[f"unsay {text}"] += 1


@policy.step("no_secrets_in")
async def no_secrets_in(assets: list[dict[str, Any]]) -> Answer:
    CALLS["no_secrets_in"] += 1
    found = [asset["uri"] for asset in assets if "secret" in asset["tags"]]
    return {"ok": not found, "reason": f"{', '.join(found)} is secret"}


@policy.step("no_secrets_out")
async def no_secrets_out(writes: list[dict[str, Any]], output: Any = None) -> Answer:
    CALLS["no_secrets_out"] += 1
    WORLD["writes"] = writes
    return {"ok": "secret" not in str(output), "reason": "it tells a secret"}


@policy.step("odd")
async def odd(output: Any = None) -> Any:
    """Answers what the test wants, or raises it."""
    CALLS["odd"] += 1
    if isinstance(WORLD["answer"], Exception):
        raise WORLD["answer"]
    return WORLD["answer"]


@policy.step("slow")
async def slow() -> Answer:
    WORLD["begun"].set()
    await asyncio.Event().wait()
    raise AssertionError("never")


def template(steps: str, policies: str, rest: str = "") -> str:
    return f"stepfast: 1\nworkflow: flow\npolicies:\n{policies}\n{rest}\nsteps:\n{steps}"


CITING = """
  - {id: cite, use: docs.cite, reads: {asset: source}, writes: {asset: cited, tags: [made]}}
"""


async def begun(opened: Engine, flow: str, **inputs: Any) -> Any:
    """A run of a template, as far as it comes by itself."""
    await opened.app.register(flow)
    run = await opened.start("flow", **inputs)
    await opened.run_until_idle()
    return run


async def read_and_written(opened: Engine, run: Any) -> tuple[list[str], list[str]]:
    """What lineage tells of a run."""
    rows = await opened.app.assets.lineage(run_id=run.id)
    found = {role: [f"{row.asset_id}@{row.version}" for row in rows if row.role is role] for role in Role}
    return found[Role.READ], found[Role.WRITE]
