-- name: get_run
-- One run, for its tenant or, without one, for anybody.
select run_id, tenant, workflow, version, kind, state, generation, queue, priority, queued_at, updated_at, ended_at,
       worker_id, token, crashes, claims, parent_id, key, actor, correlation_id, causation_id, thread_id, subject,
       metadata, input, value, error
  from stepfast.run_state
 where run_id = :run_id
   and (cast(:tenant as text) is null or tenant = :tenant);

-- name: list_runs
-- One page of runs, newest first; every condition is optional.
select s.run_id, s.tenant, s.workflow, s.version, s.kind, s.state, s.generation, s.queue, s.priority, s.queued_at,
       s.updated_at, s.ended_at, s.worker_id, s.token, s.crashes, s.claims, s.parent_id, s.key, s.actor,
       s.correlation_id, s.causation_id, s.thread_id, s.subject, s.metadata, s.input, s.value, s.error
  from stepfast.run_state s
 where s.run_id < :before
   and (cast(:tenant as text) is null or s.tenant = :tenant)
   and (cast(:workflow as text) is null or s.workflow = :workflow)
   and (cast(:version as integer) is null or s.version = :version)
   and (cast(:state as text) is null or s.state = :state)
   and (cast(:queue as text) is null or s.queue = :queue)
   and (cast(:actor as text) is null or s.actor = :actor)
   and (cast(:correlation_id as text) is null or s.correlation_id = :correlation_id)
   and (cast(:subject as text) is null or s.subject = :subject)
   and (cast(:thread_id as text) is null or s.thread_id = :thread_id)
   and (cast(:tag as text) is null or exists (select 1 from stepfast.run_tag g where g.run_id = s.run_id and g.tag = :tag))
   and (cast(:queued_after as bigint) is null or s.queued_at > :queued_after)
   and (cast(:updated_after as bigint) is null or s.updated_at > :updated_after)
 order by s.run_id desc
 limit :limit;

-- name: list_steps
-- Every record of a run, superseded ones too, in the order they were handed to its code.
select seq, path, name, count, kind, state, attempt, generation, superseded_by, input, value, error, started_at,
       ended_at, due_at
  from stepfast.step
 where run_id = :run_id
 order by seq;

-- name: list_records
-- What a run's code gets back when it is run again.
select path, name, count, kind, state, attempt, digest, input, value, error, started_at, ended_at, due_at, seq
  from stepfast.step
 where run_id = :run_id
   and superseded_by is null
 order by seq;

-- name: list_waits
-- What a run waits for.
select wait_id, kind, name, due_at, need, spare, total, got, failed
  from stepfast.wait
 where run_id = :run_id
 order by wait_id;

-- name: list_inbox
-- What has come for a run and was not yet taken, in order of arrival.
select n, kind, name, value, actor, at, told
  from stepfast.inbox
 where run_id = :run_id
 order by n;

-- name: get_wakes
-- How often something has come for a run, and whether a person holds it.
select wakes, hold
  from stepfast.task
 where run_id = :run_id;

-- name: list_events
-- A page of a run's history.
select position, seq, run_id, tenant, generation, type, at, step, attempt, token, actor, data
  from stepfast.event
 where run_id = :run_id
   and seq > :after
 order by seq
 limit :limit;

-- name: get_outcome
-- How a run ended; a run whose newest generation is still open has no row here.
select o.run_id, o.generation, o.state, o.value, o.error, o.ended_at
  from stepfast.outcome o
 where o.run_id = :run_id
   and not exists (select 1 from stepfast.task t where t.run_id = o.run_id)
 order by o.generation desc
 limit 1;

-- name: list_workers
-- The workers that are alive, and those that died within the hour.
select worker_id, label, host, pid, queues, codes, lease_ms, started_at, seen_at, dead_at
  from stepfast.worker
 where dead_at is null
    or dead_at > stepfast.now_ms() - 3600000
 order by started_at, worker_id;
