"""What is measured, in the order of the table, and the bars that are absolute."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Bar(NamedTuple):
    """A limit that a figure must keep to, from above or from below."""

    limit: float
    is_least: bool

    def is_met_by(self, figure: float) -> bool:
        return figure >= self.limit if self.is_least else figure <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {self.limit:,g}"


def at_least(limit: float) -> Bar:
    return Bar(limit, is_least=True)


def at_most(limit: float) -> Bar:
    return Bar(limit, is_least=False)


class Line(NamedTuple):
    """One line of the table: a figure, and its bar for each kind of store that has one."""

    figure: str
    title: str
    bars: Mapping[str, Bar] = MappingProxyType({})


NO_STORE = "-"


def everywhere(bar: Bar) -> dict[str, Bar]:
    return {"sqlite": bar, "postgres": bar, NO_STORE: bar}


def scaled(name: str, title: str) -> tuple[Line, Line, Line]:
    """What one process does in a second, what two do, and how much more that is."""
    return (
        Line(f"{name}_one_per_s", f"{title}, one process"),
        Line(f"{name}_two_per_s", "  the same, two processes"),
        Line(f"{name}_two_to_one", "  two processes to one", everywhere(at_least(1.5))),
    )


LINES = (
    Line("steps_per_s", "durable steps/s, 200 runs x 10"),
    Line("step_p50_ms", "  one step as its workflow sees it, p50 ms"),
    Line("step_p99_ms", "  the same, p99 ms", everywhere(at_most(25))),
    Line("commit_p50_ms", "  its commit, from the end of its body to the answer, p50 ms"),
    Line("commit_p99_ms", "  the same, p99 ms", everywhere(at_most(25))),
    Line("steps_rss_mb", "  RSS after it, MB", everywhere(at_most(100))),
    Line("latency_p50_ms", "start to result in one process, p50 ms"),
    Line("latency_p99_ms", "  the same, p99 ms"),
    Line(
        "remote_latency_p50_ms",
        "start to result by another process, p50 ms",
        {"sqlite": at_most(30), "postgres": at_most(10)},
    ),
    Line("remote_latency_p99_ms", "  the same, p99 ms"),
    Line("enqueue_per_s", "starts/s, 10,000 runs"),
    Line("drain_per_s", "drain of 10,000 one-step runs/s, one process"),
    Line("drain_total_s", "  with the worker's own start, s"),
    Line("drain_rss_mb", "  RSS after it, MB", everywhere(at_most(100))),
    Line("drain_no_step_per_s", "drain of runs without steps/s"),
    *scaled("naps", "runs with a step that waits 5 ms/s, 200 at a time"),
    *scaled("default_naps", "the same, 100 at a time (a worker's default)"),
    *scaled("few_naps", "the same, 20 at a time"),
    *scaled("sums", "runs with a step that computes 5 ms/s"),
    Line("machine_two_to_one", "two processes that only compute, to one, without a store"),
    Line("claims_short_per_s", "claimed runs/s, 1,000 ready"),
    Line("claims_long_per_s", "claimed runs/s, 1,000,000 ready of 10,000 tenants"),
    Line("backlog_ratio", "  the second to the first", everywhere(at_least(0.8))),
    Line("fan_out_per_s", "fan-out of 1,000 steps in one run, steps/s", everywhere(at_least(10_000))),
    Line("children_per_s", "fan-out of 1,000 children joined by one run, children/s", everywhere(at_least(3_000))),
    Line("children_parent_claims", "  claims of their parent", everywhere(at_most(5))),
    Line("reviews_opened_per_s", "reviews opened/s, 1,000 started from 4 processes"),
    Line("reviews_decided_per_s", "reviews decided/s, 1,000 from 4 processes", {"postgres": at_least(500)}),
    Line("reviews_completed_per_s", "  until their runs have ended, runs/s"),
    Line("idle_cpu_percent_before", "idle worker, % of a core"),
    Line("idle_cpu_percent_waiting", "  with 10,000 runs that wait for reviews"),
    Line("idle_transactions_per_s_before", "idle worker, transactions/s"),
    Line("idle_transactions_per_s_waiting", "  with 10,000 runs that wait for reviews"),
    Line("waiting_needless_claims", "  claims of runs whose review is not decided", everywhere(at_most(0))),
    Line("graph_steps_per_s", "durable steps/s as a graph, 200 runs x 10"),
    Line("graph_to_function", "  to the same steps as a function, in the same run", everywhere(at_least(0.7))),
    Line("layered_overhead_us", "layered graph of 1,000 steps, CPU a step, us", everywhere(at_most(100))),
    Line("template_validation_ms", "validating a template of 1,000 steps, ms", everywhere(at_most(1_000))),
    Line("expression_us", "evaluating an expression, us", everywhere(at_most(2))),
    Line("untold_steps_per_s", "durable steps/s by a build without events"),
    Line("event_cost_percent", "  what events cost of it, %", everywhere(at_most(35))),
    Line("sealed_per_s", "audit trail of 1,000,000 events: sealed events/s", everywhere(at_least(10_000))),
    Line("verify_s", "  verifying it, s", everywhere(at_most(60))),
    Line("verify_rss_mb", "  peak RSS of both, MB"),
    Line("reconstruction_ms", "reconstructing a run of 1,000 steps, ms", everywhere(at_most(200))),
    Line("reconstruction_cpu_ms", "  CPU of it, ms"),
    Line("published_per_s", "events published/s to one sink", everywhere(at_least(5_000))),
    Line("sink_lag_p50_ms", "  from an event to its delivery at 2,000 events/s, p50 ms", everywhere(at_most(200))),
    Line("sink_lag_p99_ms", "  the same, p99 ms", everywhere(at_most(200))),
    Line("recovery_s", "kill -9 to all complete with a lease of 5 s, s", everywhere(at_most(8))),
    Line("recovery_bodies_again", "  bodies run again, of 2,000"),
    Line("outage_s", "server away for 20 s: from its return to all complete, s"),
    Line("outage_bodies_again", "  bodies run again, of 48,000", everywhere(at_most(0))),
    Line("import_ms", "import stepfast, ms", everywhere(at_most(150))),
    # What is not used is not loaded, so that the import alone says little.
    Line("first_use_ms", "  with the first use of app, step and workflow, ms", everywhere(at_most(150))),
    Line("help_ms", "stepfast --help, ms", everywhere(at_most(150))),
    Line("install_packages", "default install, packages"),
    Line("install_mb", "  its size, MB"),
)
