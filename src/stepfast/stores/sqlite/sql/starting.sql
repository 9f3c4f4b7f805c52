-- What a commit gathers is written statement by statement, in the order of this file.

-- name: find_key
-- The run that a tenant's key was first used for.
select run_id, digest, at
  from idempotency
 where tenant = ?
   and command = 'start'
   and key = ?;

-- name: queue_has_ready
-- Whether anything in a queue waits for a worker.
select exists (select 1 from task where queue = ? and state = 'ready' and hold = 0 and crashes = 0);

-- name: insert_run
-- The record of a run, written once.
insert into run (run_id, tenant, workflow, version, kind, queue, code, priority, key, input, parent_id, parent_wait,
                 leave, timeout_ms, definition, actor, correlation_id, causation_id, thread_id, subject, metadata,
                 queued_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_tag
-- One tag of a run; saying it twice is saying it once.
insert into run_tag (run_id, tag, tenant)
values (?, ?, ?)
    on conflict do nothing;

-- name: insert_task
-- The hot row of a new run.
insert into task (run_id, queue, tenant, code, place, state, due_at, deadline_at, worker_id, token, claims, lane,
                  since_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_delay
-- What a run that starts later waits for.
insert into wait (run_id, wait_id, tenant, generation, kind, name, path, count, opened_at, due_at)
values (?, 0, ?, 1, 'delay', 'delay', '', 0, ?, ?);

-- name: insert_queued
-- The first event of a run.
insert into event (run_id, seq, tenant, generation, type, at, token, actor, causation_id, data)
values (?, 1, ?, 1, 'queued', ?, 0, ?, ?, ?);

-- name: insert_key
-- The key that a run was started with.
insert into idempotency (tenant, command, key, digest, run_id, at)
values (?, 'start', ?, ?, ?, ?);
