"""Write the reference pages that are made from the code, so that they cannot say anything else than it does."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import apsw
import click

from stepfast import log, settings
from stepfast.cli.commands import cli
from stepfast.kernel import auditing, errors, events, states
from stepfast.stores.sqlite.migrate import known_migrations
from stepfast.workflows.templates.schema import SHIPPED, language_schema, schema_text
from tools.event_fields import fields_table
from tools.language_page import language_sections

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
NOTICE = "<!-- Made from the code by `make docs`; change the code, not this page. -->"

REMEDIES = {
    "E-GEN-001": "Read the message; it names the thing, its state and the next step.",
    "E-RUN-001": "Check the id and the tenant; `await app.runs()` lists the runs there are.",
    "E-RUN-002": "Raised in a worker: nothing to do, the present owner goes on with the run; if it happens often, give "
    "the lease more time (`STEPFAST_LEASE`). Of a run that failed with it: find out what kills the process, as a lack "
    "of memory or a fault in a C extension does, then `stepfast dead-letters replay RUN`; `STEPFAST_MAX_CRASHES` is "
    "how many deaths it takes.",
    "E-RUN-003": "Look at the run's state; [states](states.md) shows which moves it allows.",
    "E-RUN-004": "Start a worker with the code that began the run, or give the changed workflow a new version; where "
    "neither code fits any more, `stepfast runs rollback RUN --to STEP` and `stepfast runs resume RUN`.",
    "E-RUN-005": "Run all of it again: `stepfast runs rerun RUN` without a step.",
    "E-RUN-007": "Read the cause and mend it, then `stepfast runs retry RUN` goes on from what is recorded.",
    "E-RUN-008": "Start it again with `stepfast runs rerun RUN` if it was cancelled by mistake.",
    "E-RUN-010": "List events with `stepfast runs events RUN` or `stepfast audit list`; name one, or a state of it.",
    "E-RUN-009": "Find out with `stepfast runs show RUN` where the time went, then retry it, or allow it more.",
    "E-STEP-001": "Read the type and traceback that it carries; they are those of the original error.",
    "E-STEP-002": "Find out what the step waited for, or allow it more time.",
    "E-STEP-004": "Correct the name, or check the file with the app that has the executor: `--app MODULE:APP`.",
    "E-STEP-005": "Look at what failed, which the message names first; allow more failures in the join, or mend them.",
    "E-STEP-006": "See to what the named steps left behind by hand, then retry the run.",
    "E-STEP-003": "Check the name; the run's own list of steps shows those that exist. A stage reads an output that "
    "may be missing with `ctx.optional(...)`.",
    "E-STEP-007": "Nothing to do while attempts are left; afterwards mend what the message names, then retry it.",
    "E-POL-001": "Read the reason, mend what it names, then retry the run: the check is made again. With "
    "`conflict: review` a person decides instead.",
    "E-WAIT-001": "Catch `WaitTimeout` in the workflow and decide what then, or wait longer.",
    "E-IDEM-001": "Use a new key for a new request, or send the first body again.",
    "E-IDEM-002": "Send the same request again a little later. On PostgreSQL it is told after some seconds; on SQLite "
    "one writer has the whole file, and a wait that is too long is E-STORE-001.",
    "E-VAL-001": "Correct the value that the message names.",
    "E-VAL-002": "Correct the definition that the message names; all its faults are listed at once.",
    "E-VAL-003": "Return something that JSON can hold, or describe the value by a type hint.",
    "E-VAL-004": "Use the form that the message names.",
    "E-VAL-005": "Guard the part that the message names, as in `has(a.b) ? a.b : 0`, or correct what it was given.",
    "E-STORE-001": "Check that the database runs, can be reached and has room, and that a blob folder is there, then "
    "send the request again, with the same key if it had one: it may have been carried out.",
    "E-STORE-002": "Bring the schema up to date with `stepfast migrate`, or upgrade this program.",
    "E-STORE-003": "Make room, correct the permissions or move the file to a local disk, as the message says.",
    "E-ASSET-001": "Check name, version and tenant; `await app.assets.list()` lists the assets there are, and "
    "`await run.artifacts()` what the steps of a run have kept.",
    "E-WORKER-001": "Check the id or label; `await app.workers.list()` shows the workers there are.",
    "E-BLOB-001": "Check that `STEPFAST_BLOBS` names the blob store that the run was started with; put the blob that "
    "the message names back from a backup. The run goes on by itself then.",
    "E-BLOB-002": "Look at the cause, which is the blob store's own error; the run is tried again by itself.",
    "E-SINK-001": "Read what the sink said, which the message holds; the events are delivered by themselves when it "
    "is back. See `stepfast sinks list`.",
    "E-SINK-002": "Wait for the sink to be back: nothing is lost meanwhile, and no event is given up.",
    "E-STORE-004": "Look for the value that the message names; sent alone, every other row of the batch is saved.",
    "E-CALL-001": "Give the token whole, as the step handed it out; after a lost key the step must be started anew.",
    "E-CALL-002": "Nothing to do: its step waits no more. Retry the run to start the outside work anew.",
    "E-CALL-003": "Nothing to do: the first end counts. See it with `stepfast runs show RUN`.",
    "E-CALL-004": "Use the token that the present generation of the run has handed out, and its tenant.",
    "E-REV-001": "Copy the token whole, or have a new one issued: `await app.reviews.issue_token(...)`.",
    "E-REV-002": "Have a new token issued; if the review itself has expired, look at what its run did then.",
    "E-REV-003": "Nothing to do if it was you: the first answer counts. Else look: `stepfast reviews show REVIEW`.",
    "E-REV-004": "Use the token that was issued for this review and person; those of an earlier generation are void.",
    "E-REV-005": "Give one of the answers that the message names.",
    "E-REV-006": "Catch `Rejected` in the workflow where a no is an answer like any other; its note says why.",
    "E-REV-007": "Show something that JSON can hold; the message holds the path to what it cannot.",
    "E-EXE-001": "Check the name; `stepfast executors list` shows those there are, and plugins that could not be used.",
    "E-EXE-002": "Read the end of what the program wrote, which the message holds.",
    "E-EXE-003": "If it is meant to be used, add it to the setting that the message names.",
    "E-EXE-004": "Nothing to do if a later attempt got through; else look at the server.",
    "E-VAL-006": "Check the name and the version; `stepfast workflows list` shows those there are.",
    "E-EXE-005": "Correct the request as the server's answer says.",
    "E-AUTH-002": "Have whoever is asked do it, or have it reassigned: `await app.reviews.reassign(...)`.",
}

TABLES = {
    "migration": "Which changes of the schema this database has had.",
    "run": "One row for every run, written at its start and never changed.",
    "run_tag": "The tags of runs, one row each.",
    "generation": "What a run goes on with in its second and later lives; the first is in `run`.",
    "outcome": "How a generation of a run ended. A run that has no `task` has ended; its newest outcome says how.",
    "task": "The row by which a run is claimed and held. It is deleted when the run ends.",
    "wait": "What a run waits for; several at once when several of its branches wait.",
    "unjoined": "Groups of children that nobody will join; upkeep cancels those of them that have not ended.",
    "inbox": "What was delivered to a run and not yet taken by its code; signals outlast its end, which may not be for "
    "good.",
    "step": "The records of a run's durable calls: steps, sleeps, receives, children, events of its own. Rows are only "
    "added; of several for one call (`path`, `name`, `count`) the newest counts.",
    "event": "The history of all runs. `seq` counts within a run without gaps, `position` over all runs.",
    "worker": "The workers that have announced themselves.",
    "turn": "Who was served last in a queue by workers that have left; those that come next go on after it.",
    "lane": "Limits for groups of runs. Nothing writes to it yet.",
    "dead_letter": "Runs that failed for good and that no other run waits for.",
    "idempotency": "Which keys were used for what, so that a request that is sent twice counts once.",
    "review": "What people are asked, and what came of it.",
    "review_answer": "What each person has said of a review.",
    "review_token": "The tokens that were issued; a token itself is stored nowhere.",
    "sink": "How far each sink has got: what stands at or below its cursor was delivered, waits, or is a dead letter.",
    "retention": "How long runs are kept; an empty tenant or workflow means all.",
    "pruned": "What is left of runs that were let go: how many events they had, and under which id that is told.",
    "pruned_rest": "Runs that were let go and may still have blobs outside of the database.",
    "pruning": "Has a row while a transaction that lets runs go may delete events.",
    "run_keeping": "A view of what speaks for and against letting a run go.",
    "sink_held": "Runs whose events wait, because a sink did not take one of them.",
    "sink_letter": "Events that a sink did not take, however often they were offered.",
    "seal": "Seals of the audit trail, each signed with a key that is not in the database.",
    "leaf": "What each seal has of each run: a digest of the run's events between two positions.",
    "outside_left": "Outside work of runs that have ended, which a worker is about to stop.",
    "exception_item": "The exception queue: reviews, failures, and runs whose code does not fit.",
    "exception_comment": "What people have said of exception items; what was said of a review is in `review_answer`.",
    "definition": "Templates and graphs that were registered, each version once and for good.",
    "asset": "Content that outlives runs: one row for each id, whatever the number of its versions.",
    "asset_version": "The versions of assets; a row is written once and never changed. The content is in the blob "
    "store, under `place` and named by its digest.",
    "asset_tag": "The tags of each asset's newest version.",
    "collection": "Named lists of assets.",
    "collection_item": "What collections hold, in order.",
    "derivation": "The edges of lineage: a version of an asset was made of another, by which step of which run.",
    "lineage": "Which steps of which runs have read and written which versions of assets.",
    "artifact": "What steps have kept, for themselves or for people. The content is in the blob store, named by its "
    "digest. Of several rows for one call and name the newest counts, by `token` and `attempt`.",
    "spent": "A view of runs whose rows hold numbers that no run reaches by itself; on SQLite alone.",
    "run_moved": "A view that tells when something was last done to a run; on SQLite alone.",
    "blob": "Large values, unless `STEPFAST_BLOBS` names another place for them; where that is a folder, a row of no "
    "run has its identity. A row refers to one by "
    "`@blob:NAME:SIZE` in the place of its JSON.",
    "run_state": "A view with one row for every run. Read it rather than the tables behind it; a computed column has "
    "no type of its own.",
    "annotation": "A view of the events of type `annotated`: facts that code and people have noted of runs and steps.",
}

# What SQLite has no use for: it has no roles, and one writer at a time.
POSTGRES_ALONE = {
    "grantee": (
        "Roles that use the schema without owning it.",
        {"name": ("text", "the role"), "kind": ("text", "`engine` or `reader`: what it was let in for")},
    ),
    "event_writer": (
        "A view of the transactions that are writing events.",
        {"virtualtransaction": ("text", "the transaction"), "pid": ("integer", "the server's process")},
    ),
}

# By name, or by table and name where a name means something else there.
COLUMNS = {
    "annotation.step": "the address of the step that it is about; none for the whole run",
    "annotation.at": "when it was noted",
    "annotation.reason": "why it was noted, as far as anybody said",
    "annotation.digest": "of name and value, by which it is found",
    "annotation.value": "the fact, as JSON",
    "annotation.name": "the name of the fact",
    "annotation.scope": "what the fact is about beside the run or step",
    "sink": "the name of the sink",
    "keep_ms": "how long runs are kept after their end; empty: for ever",
    "retention.actor": "who set it, as the caller said",
    "retention.changed_at": "when it was set",
    "retention.tenant": "the tenant; empty: all",
    "retention.workflow": "the name of the workflow; empty: all",
    "pruned.last_seq": "the number of its last event",
    "batch_id": "what the event `pruned` is under that names it",
    "pruned_at": "when it went",
    "xact": "the number of the transaction; on SQLite 1",
    "has_children": "1 when it has started others that are there",
    "is_sealed": "1 when all its events are sealed",
    "held": "what speaks against it: `open`, `dead_letter`, `exception`, `outside`, `sink` or `damaged`",
    "run_keeping.last_seq": "the number of its last event",
    "cursor": "the position up to which it has had everything",
    "publisher": "the worker that publishes to it",
    "sink.token": "rises whenever another worker takes it; what carries an older one is refused",
    "leased_until": "until when that worker has it to itself",
    "sink.tries": "how often in a row nothing at all could be delivered",
    "sink_held.tries": "how often the event was offered",
    "sink_letter.tries": "how often the event was offered",
    "sink.due_at": "when to try again",
    "sink_held.due_at": "when to try again",
    "sink.error": "why nothing could be delivered",
    "sink_held.error": "why it was not taken",
    "sink_letter.error": "why it was not taken",
    "sink_held.seq": "the number of the event that was not taken",
    "sink_letter.seq": "the number of the event within its run",
    "replay_at": "since when somebody wants it delivered once more",
    "sink_letter.resolved_at": "when it was delivered after all",
    "after": "the position behind which its events are",
    "upto": "the position up to which its events are",
    "seal.number": "its number, from 1",
    "leaf.number": "the seal that it belongs to",
    "leaf.n": "its place among the leaves of the seal",
    "leaf.digest": "a hash of all that those events say",
    "events": "how many events it seals",
    "leaves": "how many runs those are of",
    "root": "the hash that all leaves lead to",
    "previous": "the hash of the seal before",
    "sealed_at": "when it was made",
    "seal.key": "the number of the key that it was signed with",
    "signature": "what nobody can make without that key",
    "first_seq": "the number of the first of the run's events in it",
    "last_seq": "the number of the last",
    "actor": "who asked for it, as the caller said",
    "exception_comment.actor": "who said it",
    "exception_item.actor": "who resolved it",
    "review.actor": "whose answer ended it",
    "review_answer.actor": "who said it",
    "review_token.actor": "whom it is for",
    "answer": "what was answered; empty for starts, whose answer is the run",
    "applied_at": "when it was applied",
    "asking": "how its step stood with it, as JSON: the handle, and the run that stops it",
    "assignee": "the person who is to see to it",
    "at": "when it happened",
    "run_moved.at": "when that was",
    "at_once": "how many may run at once",
    "attempt": "which attempt, from 1",
    "artifact.digest": "the SHA-256 of the content; empty for what is deleted",
    "artifact.kind": "`value` for the step itself, `artifact` for people, `deleted`",
    "artifact.nth": "which call of that name in that branch, from 1",
    "artifact.step": "the name of the step",
    "asset_id": "the id of the asset, its tenant's own",
    "asset_version.actor": "who put it, as the caller said",
    "asset_version.digest": "the SHA-256 of the content",
    "asset_version.generation": "the generation of that run",
    "asset_version.inputs": "the addresses of what that call had read by then, as JSON",
    "asset_version.place": "where the blob store has the content: in the place of a run, an id that no run can have",
    "asset_version.run_id": "the run that made it; empty where nobody said",
    "asset_version.step": "the call that made it, as `path/name#count`",
    "asset_version.version": "counts from 1 for each asset",
    "collection.actor": "who filled it, as the caller said",
    "collection.size": "how many it holds",
    "collection_item.n": "the order",
    "form": "how the content is read back: `json` or `bytes`",
    "fresh": "the number that the last asset with a fresh id in this one's stead was given",
    "lineage.role": "`read` or `write`",
    "lineage.version": "the version that was read or written",
    "lineage.token": "the lease of the try that has read it; 0 where it counts for every try, and for what was written",
    "derivation.edge": "a number without meaning",
    "derivation.version": "the version that was made",
    "derivation.input_id": "the asset that it was made of",
    "derivation.input_version": "the version of that",
    "media_type": "the media type of the content",
    "newest": "the version that is meant where none is named",
    "put_at": "when it was put",
    "saved_at": "when it was kept",
    "size": "the number of bytes",
    "tags": "its tags, as JSON",
    "wanted_id": "the id that the step asked for; another than the asset's where that was taken",
    "changed_at": "when it was filled",
    "causation_id": "what brought it about; for a child, its parent",
    "event.causation_id": "of a run's first event what brought it about: its parent, or the key of its start",
    "cause": "what opened it: the name of the move, and `rerun_from` for a rerun from a step",
    "inbox.cause": "the key that it was sent with",
    "exception_comment.cause": "the item",
    "exception_item.cause": "what it is about within its run: `review:7`, `failed:1`, `blocked:1`",
    "claims": "how often it was claimed in this generation; 0 when it has ended",
    "code": "what a worker must have to execute it, as `name@version`; for a step with a queue of its own, its name; "
    "for one that is spread out, the code of its parent",
    "codes": "what it can execute, as JSON",
    "command": "the kind of request",
    "content": "the bytes",
    "correlation_id": "what it belongs to, as the caller said; for a child without one, its parent",
    "count": "which call of that name in that branch, from 1",
    "crashes": "how often its worker died while it held the run",
    "data": "more, as JSON",
    "crew": "which workers: a digest of what they can execute, and for whom",
    "dead_at": "when it left or was found dead",
    "deadline_at": "when it must have ended; each generation has its own",
    "definition": "the digest of the definition that it is pinned to; empty for functions",
    "definition.actor": "who registered it",
    "definition.content": "JSON: a template whole, or the description of a graph",
    "definition.digest": "a hash of what it does, which runs are pinned to",
    "definition.kind": "`template`, or `graph` for one whose code is Python",
    "definition.name": "the name of the workflow",
    "definition.number": "counts all of them, in the order of their commits",
    "definition_id": "its id, under which its event is",
    "registered_at": "when it was registered",
    "lacks": "what it knows and cannot execute, and why, as JSON",
    "digest": "a hash of what was asked, to tell a repetition from another request",
    "review.digest": "a hash of what is shown",
    "due_at": "when it is to go on by itself",
    "review.due_at": "until when it can be answered",
    "ended_at": "when it ended",
    "error": "the error, as JSON, when it failed",
    "error_type": "the class of the error, as `module:name`",
    "escalate_role": "the role that is asked when it is escalated",
    "escalate_to": "the person who is asked when it is escalated",
    "escalations": "how often it was escalated",
    "expires_at": "when it stops working",
    "expires_ms": "how long people have, from the opening and from each escalation",
    "failed": "how many children have failed",
    "generation": "which life of the run, from 1",
    "got": "how many children have come to a good end",
    "hash": "the keyed hash of the token",
    "hold": "1 while a person holds it",
    "host": "the machine",
    "input": "the arguments, as JSON",
    "issued_at": "when it was issued",
    "key": "the key that the caller gave, unique for tenant and command",
    "kind": "what kind it is",
    "exception_item.kind": "`review_required`, `low_confidence`, `policy_conflict`, `failed` or `blocked`",
    "inbox.kind": "`signal`, `review` for an answer, or an event that whoever holds the run is to tell, like `paused`",
    "review.kind": "the kind of its exception item: `review_required`, `low_confidence` or `policy_conflict`",
    "run.kind": "`workflow`, or `step` for a step that is a run of its own",
    "run_state.kind": "`workflow`, or `step` for a step that is a run of its own",
    "step.kind": "`step`, `sleep`, `receive`, `children`, `unmet` (children whose join was not met), `start`, `join`, "
    "`ask`, `review`, `command`, `emit` or `annotate`",
    "wait.kind": "what is waited for: " + ", ".join(f"`{kind}`" for kind in states.WaitKind),
    "label": "the name that people see",
    "lane": "the group that its limit is for; not used yet",
    "turn.queue": "the queue",
    "turn.tenant": "the tenant that they served last",
    "left_at": "when the last of them left",
    "lease_ms": "how long it may be silent before it counts as dead",
    "leave": "1 for a child that may outlive its parent",
    "message": "the beginning of the error's message",
    "metadata": "what the caller wants to keep with it, as JSON",
    "n": "the order of arrival within the run",
    "exception_comment.n": "the order in which it was said",
    "review_answer.n": "the order in which it was said",
    "name": "the name",
    "need": "how many children must come to a good end",
    "note": "what was said with it; without a verdict, the comment",
    "number": "the number of the change",
    "on_expiry": "what happens when nobody answers: `fail`, `escalate`, or the verdict that counts then",
    "opened_at": "when it began",
    "parent_id": "the run that waits for this one",
    "parent_wait": "the wait of the parent that this run counts toward",
    "path": "the branch of the run's code, empty for the first",
    "pid": "the number of its process",
    "place": "its place in the line; the lowest is claimed first",
    "position": "the number over all runs",
    "priority": "higher is claimed first",
    "queue": "the line it stands in",
    "queued_at": "when it was stored",
    "queues": "the queues that it serves, as JSON",
    "quorum": "how many must approve",
    "quorum_reject": "how many must reject",
    "reason": "why, as whoever asked for it said",
    "recorded_at": "when it was written",
    "resolution": "what was done about it: `replayed` or `discarded`",
    "exception_item.resolution": "what became of it: a verdict, `expired`, `withdrawn`, `replayed`, `discarded`, "
    "`taken up`",
    "resolved_at": "when that was done",
    "exception_item.resolved_at": "when it was resolved",
    "role": "the role of those who may answer",
    "run_id": "the run",
    "seen_at": "when it was last heard of",
    "seq": "the number within the run, from 1",
    "outcome.seq": "the number of its last event",
    "shape": "what equal failures have in common: the step by name, the error without numbers, ids and quoted text",
    "shown": "what people are shown, as JSON",
    "since_at": "since when it has been in this state",
    "spare": "how many children may fail before the join cannot be met",
    "started_at": "when it began",
    "state": "the state",
    "review.state": "`open`, `decided`, `expired` or `withdrawn`",
    "run_state.state": "one of " + ", ".join(f"`{state}`" for state in states.RunState),
    "task.state": "`ready`, `leased` (a worker has it) or `waiting`",
    "step": "the call that it is about, as `path/name#count`",
    "strikes": "how many of the crashes were of a worker that held nothing else",
    "subject": "what it is about, as the caller said",
    "superseded_by": "the generation in which the record no longer counts",
    "tag": "the tag",
    "tenant": "whom it belongs to",
    "text": "the comment",
    "thread_id": "the thread that it belongs to, as the caller said",
    "timeout_ms": "how long each generation may take, from the moment it is first due",
    "title": "the question, or the failure, in one line",
    "token": "the token under which it was written",
    "run_state.token": "rises with every claim; what carries an older one is refused",
    "task.token": "rises with every claim; what carries an older one is refused",
    "told": "1 when its event is written",
    "total": "how many children there are",
    "tries": "how often the whole run was tried again by its own policy",
    "type": "what happened, see [events](events.md)",
    "updated_at": "when its state last changed",
    "used_at": "when it was used",
    "value": "the result, as JSON",
    "inbox.value": "what was sent, as JSON",
    "review_answer.value": "the correction, as JSON",
    "value_schema": "the JSON Schema that a correction must fit",
    "verdict": "the answer; empty for a comment",
    "review.verdict": "what it was decided to",
    "verdicts": "the answers that it takes, as JSON",
    "version": "the version of the workflow",
    "wait_id": "the number of the record that opened it",
    "review.wait_id": "the number of its wait within the run",
    "wakes": "rises whenever something comes for the run",
    "worker_id": "the worker; empty when nobody holds the run",
    "worker.crew": "what it has in common with workers that take the same runs: its code and tenants, as a digest",
    "worker.worker_id": "its id, new for every process",
    "workflow": "the name of the workflow",
}

EVENTS = {
    "template_registered": "A template or graph was registered; its history is this event, under the definition's id.",
    "retention_changed": "A retention policy was set or removed; its history is this event.",
    "pruned": "Runs were let go; `runs` of `data` names each with the number of its last event, "
    "`policy` says by which, and `signature` proves it. Its history is this event.",
    "sink_removed": "A sink that nobody publishes to any more was forgotten, with what it had not had; "
    "its history is this event.",
    "queued": "The run was stored.",
    "claimed": "A worker took the run; `data` names it.",
    "started": "Its code begins for the first time in this generation.",
    "waiting": "Every branch waits, and the worker has let the run go; when its code does not fit, `data` says why.",
    "paused": "A person holds the run.",
    "resumed": "The hold is over.",
    "retry_scheduled": "A step's attempt failed; the next follows at `due_at` of `data`.",
    "retried": "A new generation without the failure that ended the last.",
    "rerun": "A new generation that keeps what came before a chosen step.",
    "rolled_back": "What ended after a moment is superseded, and the run is held; `to` of `data` is the step or event.",
    "signalled": "A signal was stored for the run; `data` has its name and number.",
    "reaped": "The worker that held the run was found dead; `data` names it and counts the crashes.",
    "handed_back": "Its worker gave the run back to the line; `data` says why.",
    "continued": "The code has started over with new input, as the next generation.",
    "completed": "The code returned.",
    "partial": "The code returned, and steps have failed that it was told to go on without.",
    "cancelled": "The run was called off.",
    "dlq_pending": "The run has failed for good and is to become a dead letter.",
    "dlq_recorded": "The dead letter is written.",
    "dlq_discarded": "Somebody has put the dead letter aside.",
    "failed": "The run has failed for good; `data` has the error's type and the beginning of its message.",
    "step_started": "A step's attempt begins.",
    "step_progress": "A step, or the run, told how far it has got: `done`, `total` and `note` in `data`.",
    "step_waiting": "The code begins to wait; `data` says for what.",
    "step_completed": "A step has its result, or what was waited for has come.",
    "step_failed": "A step's attempt failed, or a wait did.",
    "step_skipped": "A step is not done; `reason` of `data` says why. With `by_hand`, a person has given its output.",
    "step_cancelled": "The code called a step or a wait off.",
    "step_undone": "What a step did was taken back.",
    "review_requested": "A person is asked; `data` has the title, whom it is for, and the digest of what is shown.",
    "review_answered": "A person has answered, and others have to as well.",
    "review_decided": "The review has its verdict; `data` has the digest of what it is about.",
    "review_expired": "Nobody has answered in time; `data` has the verdict that counts then, if one does.",
    "review_escalated": "Somebody else is asked, and the time to answer begins anew; `data` says who.",
    "review_assigned": "Somebody else is asked; `data` says who.",
    "review_commented": "Somebody has said something about a review.",
    "token_issued": "A resume token was issued; `data` says for whom and until when.",
    "callback_submitted": "Somebody has shown a callback token; `data` has the outcome: `complete`, `fail`, or a code.",
    "resume_submitted": "Somebody has shown a resume token; `data` has the outcome: `accepted`, or a code.",
    "exception_opened": "A person should look at it; `kind` of `data` says why.",
    "exception_assigned": "Somebody is to see to an exception item; `data` says who.",
    "exception_commented": "Somebody has said something about an exception item.",
    "exception_resolved": "An exception item is resolved; `data` says how. Those that a run leaves open are withdrawn "
    "by its end.",
    "annotated": "A fact was noted: by the run's code, saved with what came of a step's attempt, or by a person. Its "
    "name and value are in `data`.",
}


_RESTORE = "Find out who can write to the database; restore the trail from a backup or an export that verifies."

AUDIT_FINDINGS: dict[auditing.Fault, tuple[str, str]] = {
    auditing.Fault.CHANGED: ("Events of a run are not what they were when they were sealed.", _RESTORE),
    auditing.Fault.REMOVED: ("Events of a run are gone.", _RESTORE),
    auditing.Fault.INSERTED: ("There are events of a run that were not there when it was sealed.", _RESTORE),
    auditing.Fault.SEAL_REMOVED: ("A seal is gone, from the chain or from the database.", _RESTORE),
    auditing.Fault.SEAL_CHANGED: ("A seal does not fit the one before it, or its leaves.", _RESTORE),
    auditing.Fault.SEAL_UNSIGNED: (
        "The signature of a seal is not that of its key.",
        "Compare the keys with those of the workers; if they are the same, the seal was forged.",
    ),
    auditing.Fault.SEAL_UNKNOWN_KEY: (
        "A seal was signed with a key that is not known here.",
        "Name that key in STEPFAST_SEAL_KEYS or --keys too, and verify again.",
    ),
    auditing.Fault.COPY_MISSING: (
        "A seal has no copy outside of the database.",
        "Give the file that the workers write, STEPFAST_SEAL_FILE; else somebody has cut it.",
    ),
    auditing.Fault.COPY_DIFFERS: ("A seal is not what its copy outside of the database says.", _RESTORE),
    auditing.Fault.PRUNED_UNPROVEN: (
        "A run is gone and said to be pruned, and nothing proves that a policy did it.",
        "Look at who removed it; what a policy prunes is signed.",
    ),
    auditing.Fault.PRUNED_PARTLY: (
        "A run was pruned, and there are events of it all the same.",
        "Find out who wrote them: a run that went does not come back.",
    ),
}


def errors_page() -> str:
    """Every code with its class, meaning and remedy."""
    # One with several bases is found by each of them.
    classes = sorted({*_error_classes(errors.StepfastError)}, key=lambda error: (error.code, error.__name__))
    rows = [(f"`{error.code}`", f"`{error.__name__}`", _meaning(error), _remedy(error.code)) for error in classes]
    return _page(
        "Error codes",
        "Every error derives from `StepfastError` and carries its code in `.code`. Codes are added, never changed.",
        _table(("code", "class", "meaning", "remedy"), rows),
        "## What `audit verify` finds",
        "Findings are no exceptions: a report has them all, each with its code in `.code` and its name in `.fault`. "
        "[What they mean for an auditor](../guides/auditors.md).",
        _table(
            ("code", "name", "meaning", "remedy"),
            [(f"`{code}`", f"`{fault}`", *AUDIT_FINDINGS[fault]) for fault, code in auditing.CODES.items()],
        ),
    )


def states_page() -> str:
    """The states of runs and steps, and the moves between those of runs."""
    moves = [
        (f"`{move.name}`", _listed(move.sources), _listed(move.targets), move.meaning) for move in states.RUN_MOVES
    ]
    return _page(
        "States",
        "A run makes only the moves below; any other is refused with E-RUN-003 and changes nothing.",
        "## Runs",
        _diagram(states.RUN_MOVES),
        f"These are final, until a move opens a new generation: {_listed(states.ENDED)}.",
        _table(("move", "from", "to", "when"), moves),
        "## Steps",
        f"A step is one of {_listed(states.StepState)}.",
    )


def settings_page() -> str:
    """Every setting with its names, what it allows, its default and its meaning."""
    rows = [
        (_setting_names(setting), f"`{setting.key}`", setting.meaning, setting.kind.allowed, _default(setting))
        for setting in (*settings.SETTINGS, settings.QUEUE_CONCURRENCY)
    ]
    return _page(
        "Settings",
        "An option of the command line or an argument in Python beats a variable with the prefix `STEPFAST_`, which "
        "beats the plain variable, which beats `[tool.stepfast]` in the nearest pyproject.toml, which beats the "
        "default. What is relative in that file, the app, the file of a SQLite database, the folder for blobs and the "
        "file for seals, is relative to the folder that the file is in; given in any other way, and by default, it is "
        "relative to the folder that the process runs in. An empty variable counts as not set. A value that does not "
        "fit stops the program at its start with E-VAL-001; all such values are named at once. A variable "
        "`STEPFAST_…` that nothing reads is told of in the log, with the nearest name there is; so are the names "
        "that are kept for parts to come, and change nothing yet: "
        + ", ".join(f"`{name}`" for name in sorted(settings.LATER))
        + ".",
        _table(("variable", "key in pyproject.toml", "meaning", "allowed", "default"), rows),
    )


def _setting_names(setting: settings.Setting) -> str:
    plain = f" or `{setting.name.removeprefix(settings.PREFIX)}`" if setting.plain else ""
    return f"`{setting.name}`{plain}"


def _default(setting: settings.Setting) -> str:
    return f"`{setting.default}`" if setting.default else "none"


def log_page() -> str:
    """Every event of the engine's own log."""
    rows = [(f"`{name}`", event.level, event.meaning) for name, event in sorted(log.EVENTS.items())]
    return _page(
        "The engine's log",
        "The engine writes named events with fields through the standard `logging` module, to loggers below "
        "`stepfast`; an application configures them as any other. Commands write them to stderr, from the level and in "
        "the form that `STEPFAST_LOG` names: `info` (the default), `debug`, `warning`, `error`, with `,json` for one "
        "JSON object a line. Lines about a run carry `run_id`, `tenant` and `worker_id`. An event whose cause is not "
        "known comes with a traceback, at level error.",
        _table(("event", "level", "meaning"), rows),
    )


def events_page() -> str:
    """Every type of event with its meaning."""
    rows = [(f"[`{type_}`](#{type_})", _told(type_)) for type_ in events.EventType]
    return _page(
        "Events",
        "The history of a run, as `await run.history()` (a thousand at a time, see `after`) and the table "
        "[event](schema.md#event) have it. An event is never changed or removed. It is written in the same commit as "
        "what it tells of; only `started`, `step_started` and `step_progress` go along with the run's next "
        "commit. `started` is told once in each generation in which the code has begun: after a crash before that "
        "commit by the next worker that has the run. The other two can be lost in a crash. Types are only added.",
        "Fields: `position` counts over all runs and `seq` within the run, `type`, `at` in milliseconds, `run_id`, "
        "`tenant`, `generation`, `token`, and, where they apply, `step` (as `name#1`, with the branch before it: "
        "`1.2/name#1`), `attempt`, `actor` and `data`, which is JSON text. Whoever reads an event is also shown its "
        "`correlation_id` and `causation_id`: see [Annotations](../guides/annotations.md#what-an-event-belongs-to). "
        "The `data` of a command or signal that was given with a `key` has that as `causation_id`.",
        _table(("type", "when"), rows),
        "Any other type is an event of a workflow's own, written with `emit`; its `data` is what the workflow gave.",
        *(f"## {type_}\n\n{_told(type_)}\n\n{fields_table(type_)}" for type_ in events.EventType),
    )


def _told(type_: events.EventType) -> str:
    if type_ not in EVENTS:
        raise SystemExit(f"Event {type_} has no meaning; add one to EVENTS in tools/generate_docs.py.")
    return EVENTS[type_]


def schema_page() -> str:
    """Every table and view as the SQLite migrations make it, with the meaning of each column."""
    script = "\n".join(migration.script for migration in known_migrations())
    with apsw.Connection(":memory:") as connection:
        connection.execute(script)
        sections = [_relation(connection, script, str(kind), str(name)) for kind, name in _relations(connection)]
    return _page(
        "Schema",
        "The tables as SQLite has them. On PostgreSQL they are in the schema `stepfast`, with the same names and "
        "columns; ids are `uuid`, moments `bigint`, flags `boolean` and content `bytea` there. Moments are "
        "milliseconds since 1970, JSON is kept as text. Read as you like; write through Stepfast alone. Columns are "
        "added, never renamed.",
        "Do not open a SQLite file with Python's `sqlite3` in a process that has an app open on it: Stepfast brings "
        "a SQLite of its own (`apsw`), and when one of two copies in a process closes a file, the log that the other "
        "writes to is gone. Every write is refused from then on (E-STORE-003), and the program has to be started "
        "again. Read with `apsw` there, or from another process.",
        *sections,
        *(_on_postgres_alone(name, *told) for name, told in POSTGRES_ALONE.items()),
    )


def _on_postgres_alone(name: str, meaning: str, columns: dict[str, tuple[str, str]]) -> str:
    rows = [(f"`{column}`", type_, told) for column, (type_, told) in columns.items()]
    return "\n\n".join([f"## {name}", f"{meaning} On PostgreSQL alone.", _table(("column", "type", "meaning"), rows)])


def _relations(connection: apsw.Connection) -> list[tuple[object, object]]:
    # The view first: it is what most readers want.
    query = (
        "select type, name from sqlite_schema where type in ('table', 'view') and name not like 'sqlite_%' "
        "order by type desc, rowid"
    )
    return [(kind, name) for kind, name in connection.execute(query)]


def _relation(connection: apsw.Connection, script: str, kind: str, name: str) -> str:
    if name not in TABLES:
        raise SystemExit(f"{kind} {name} has no explanation; add one to TABLES in tools/generate_docs.py.")
    columns = [
        (f"`{column}`", str(type_).lower(), _column(name, str(column)))
        for _, column, type_, *_ in connection.execute(f"pragma table_info({name})")
    ]
    parts = [f"## {name}", TABLES[name], _comment(script, kind, name), _table(("column", "type", "meaning"), columns)]
    return "\n\n".join(part for part in parts if part)


def _column(table: str, column: str) -> str:
    meaning = COLUMNS.get(f"{table}.{column}") or COLUMNS.get(column)
    if meaning is None:
        raise SystemExit(f"Column {table}.{column} has no meaning; add one to COLUMNS in tools/generate_docs.py.")
    return meaning


def _comment(script: str, kind: str, name: str) -> str:
    """What the migration itself says above a table."""
    found = re.search(rf"((?:^-- .*\n)+)create {kind} {name}\b", script, re.MULTILINE)
    return " ".join(line.removeprefix("-- ") for line in found[1].splitlines()) if found else ""


def cli_page() -> str:
    """Every command with its options, from the help that it prints."""
    return _page(
        "Command line",
        "Each command prints its own help with `--help`. A span is written like `200ms`, `30s` or `5m`; a bare number "
        "is seconds. In square brackets: the setting that stands in for an option, and the default.",
        *_commands(cli, click.Context(cli, info_name="stepfast", **cli.context_settings)),
        "Exit codes: 0 done, 1 an error (`code: message` on stderr), 2 a mistake in options or settings, 3 not found, "
        "4 refused by the state, 5 done for some runs and not for others, 124 timed out, 130 stopped by Ctrl-C, "
        "143 by SIGTERM.",
    )


def _commands(command: click.Command, context: click.Context) -> Iterator[str]:
    # Kept from the first help that was asked of it, which may not have been this page's.
    command._help_option = None
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    records = (param.get_help_record(context) for param in command.get_params(context))
    options = [(f"`{_cell(names)}`", _cell(meaning)) for names, meaning in filter(None, records)]
    yield "\n\n".join(
        [f"## {context.command_path}", f"`{usage}`", *_paragraphs(command), _table(("option", "meaning"), options)]
    )
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _commands(child, click.Context(child, info_name=name, parent=context))


def _paragraphs(command: click.Command) -> list[str]:
    return [" ".join(part.split()) for part in (command.help or "").split("\n\n") if part.strip()]


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def language_page() -> str:
    """Every key of a template, from the JSON Schema that the loader's models make."""
    return _page(
        "The template language",
        "What a template may say. Keys in bold are needed; those that begin with `x-` are comments, in every map. See "
        "the [guide](../guides/templates.md) for how it is used, and [expressions](expressions.md) for what stands in "
        "`${ ... }`. Known in all expressions are `inputs`, `steps`, `run` and `tenant`; `item`, or the name in `as`, "
        "in what is done for each item; `output` in `gate.after`, `undo`, `writes`, `while` and policies, which know "
        "`assets` before a read, and `writes` before a write; `error` in "
        "`catch`; `round` beside `while`. Of a step, `steps.x` has `output`, `skipped`, `failed`, `state` and `error`.",
        *language_sections(language_schema()),
    )


GENERATORS: dict[Path, Callable[[], str]] = {
    REFERENCE / "cli.md": cli_page,
    REFERENCE / "errors.md": errors_page,
    REFERENCE / "language.md": language_page,
    SHIPPED: lambda: schema_text(language_schema()),
    REFERENCE / "events.md": events_page,
    REFERENCE / "log.md": log_page,
    REFERENCE / "schema.md": schema_page,
    REFERENCE / "settings.md": settings_page,
    REFERENCE / "states.md": states_page,
}


def main() -> None:
    for path, generate in GENERATORS.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(generate())


def _error_classes(root: type[errors.StepfastError]) -> Iterator[type[errors.StepfastError]]:
    # Only those of the one module, so that the page does not depend on what else was imported.
    yield root
    for child in root.__subclasses__():
        if child.__module__.startswith(errors.__package__ or ""):
            yield from _error_classes(child)


def _meaning(error: type[errors.StepfastError]) -> str:
    if not error.__doc__:
        raise SystemExit(f"{error.__module__}.{error.__name__} has no docstring; say in one line what it means.")
    return error.__doc__.strip().splitlines()[0]


def _remedy(code: str) -> str:
    if code not in REMEDIES:
        raise SystemExit(f"{code} has no remedy; add one to REMEDIES in tools/generate_docs.py.")
    return REMEDIES[code]


def _diagram(moves: Iterable[states.Move]) -> str:
    names = defaultdict(list)
    for move in moves:
        for source, target in _edges(move):
            names[source, target].append(move.name)
    arrows = [f"    {source} --> {target}: {', '.join(names[source, target])}" for source, target in names]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> pending", *arrows, "```"])


def _edges(move: states.Move) -> list[tuple[states.RunState, states.RunState]]:
    # A move between any two of the same states would cover the drawing with arrows; the table has it.
    if len(move.sources) > 1 and move.sources == move.targets:
        return []
    return [(source, target) for source in _ordered(move.sources) for target in _ordered(move.targets)]


def _ordered(members: Iterable[states.RunState]) -> list[states.RunState]:
    return sorted(members, key=list(states.RunState).index)


def _listed(members: Iterable[states.RunState] | Iterable[states.StepState]) -> str:
    given = set(members)
    kind = type(next(iter(given)))
    return ", ".join(f"`{member}`" for member in kind if member in given)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *parts]) + "\n"


if __name__ == "__main__":
    main()
