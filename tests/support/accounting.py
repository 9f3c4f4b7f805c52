"""A checker over a store: which runs have neither ended nor wait for something that can come."""

from __future__ import annotations

from tests.stores.harness import Harness

# What `findings` does not ask: a run that waits for what has come already waits for ever, unless it waits for code.
UNHEARD = "wait_unheard"
UNHEARD_RUNS = """
select distinct t.run_id
  from stepfast.task t
  join stepfast.wait w on w.run_id = t.run_id
 where t.state = 'waiting'
   and not t.hold
   and not exists (select 1 from stepfast.wait c where c.run_id = t.run_id and c.kind = 'code')
   and (exists (select 1 from stepfast.inbox m where m.run_id = t.run_id and m.kind = w.kind and m.name = w.name)
        or (w.kind = 'children' and (w.got >= w.need or w.failed > w.spare)))
 order by t.run_id
"""


async def unaccounted(harness: Harness) -> list[tuple[str, str]]:
    """Each such run, and the clause that it breaks."""
    found = [(finding.clause, str(finding.run_id)) for finding in await harness.store.findings()]
    return found + [(UNHEARD, str(run_id)) for (run_id,) in await harness.sql(UNHEARD_RUNS)]
