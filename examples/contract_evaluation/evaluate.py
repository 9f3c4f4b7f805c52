"""Evaluates a contract by the template, with a worker in this process.

`python evaluate.py contract.txt` starts it; the same command, after the process was stopped or killed, goes on with it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import executors

from stepfast import RunFailed, Stepfast

HERE = Path(__file__).parent
REPORTS = Path("reports")
DOMAINS = (executors.docs, executors.ai, executors.registry, executors.policy)

app = Stepfast(
    os.environ.get("STEPFAST_DATABASE_URL") or "sqlite:///contracts.db",
    workflows=[],
    executors=[executor for domain in DOMAINS for executor in domain.list()],
)


async def prepare() -> None:
    """Keep the template and the house's own clauses; a second time nothing changes."""
    await app.register(HERE / "contract-evaluation.yaml", actor="legal-ops")
    for clause in sorted((HERE / "clauses").glob("*.txt")):
        await app.assets.put(clause, id=clause.stem, tags=["clause"])


async def main(path: str) -> None:
    async with app:
        await prepare()
        contract = await app.assets.put(Path(path), id=Path(path).stem, media_type="text/plain")
        # The key makes the second start of this program find the run of the first.
        run = await app.start("contract-evaluation", contract=contract.id, key=path)
        try:
            outcome = str(await run)
        except RunFailed as failure:
            outcome = str(failure)
        await write_report(run.id)
        print(outcome)


async def write_report(run_id: str) -> None:
    """What happened, for people who were not there; with keys, also what proves it."""
    if "STEPFAST_SEAL_KEYS" in os.environ:
        # Workers seal every few seconds; here nobody wants to wait for them.
        await app.audit.seal()
    REPORTS.mkdir(exist_ok=True)
    for form in ("md", "html"):
        text = await app.audit.report(run_id, form)
        (REPORTS / f"{run_id}.{form}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
