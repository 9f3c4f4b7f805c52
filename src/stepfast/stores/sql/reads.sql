-- name: get_run
-- One run, for its tenant or, without one, for anybody.
select run_id, tenant, workflow, version, kind, state, generation, queue, priority, queued_at, updated_at, ended_at,
       worker_id, token, crashes, claims, parent_id, key, actor, correlation_id, causation_id, thread_id, subject,
       metadata, input, value, error, code, definition,
       (select cast(json_agg(g.tag order by g.tag) as text) from stepfast.run_tag g where g.run_id = s.run_id),
       (select e.data
          from stepfast.event e
         where e.run_id = s.run_id
           and e.type = 'step_progress'
           and e.generation = s.generation
         order by e.seq desc
         limit 1)
  from stepfast.run_state s
 where run_id = :run_id
   and (cast(:tenant as text) is null or tenant = :tenant);

-- name: list_runs
-- One page of runs, newest first; every condition is optional.
select s.run_id, s.tenant, s.workflow, s.version, s.kind, s.state, s.generation, s.queue, s.priority, s.queued_at,
       s.updated_at, s.ended_at, s.worker_id, s.token, s.crashes, s.claims, s.parent_id, s.key, s.actor,
       s.correlation_id, s.causation_id, s.thread_id, s.subject, s.metadata, s.input, s.value, s.error, s.code,
       s.definition,
       (select cast(json_agg(g.tag order by g.tag) as text) from stepfast.run_tag g where g.run_id = s.run_id)
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
select n, kind, name, value, actor, at, told, reason, cause
  from stepfast.inbox
 where run_id = :run_id
 order by n;

-- name: get_wakes
-- Whose run it is by its token, how often something has come for it, whether a person holds it, and when its time is over.
select token, wakes, hold, deadline_at
  from stepfast.task
 where run_id = :run_id;

-- name: list_events
-- A page of a run's history.
select position, seq, run_id, tenant, generation, type, at, step, attempt, token, actor, data, causation_id
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
select worker_id, label, host, pid, queues, codes, lease_ms, started_at, seen_at, dead_at, lacks
  from stepfast.worker
 where dead_at is null
    or dead_at > stepfast.now_ms() - 3600000
 order by started_at, worker_id;

-- name: list_letters
-- One page of dead letters, newest run first; every condition is optional.
select run_id, generation, tenant, workflow, version, step, error_type, message, recorded_at, resolved_at, resolution,
       actor
  from stepfast.dead_letter
 where run_id < :before
   and (cast(:tenant as text) is null or tenant = :tenant)
   and (cast(:workflow as text) is null or workflow = :workflow)
   and (cast(:step as text) is null or step = :step)
   and (cast(:step_name as text) is null or replace('/' || step, '/' || :step_name || '#', '') <> '/' || step)
   and (cast(:error_type as text) is null or error_type = :error_type
        or substr(error_type, length(error_type) - length(:error_type)) = ':' || :error_type)
   and (cast(:run_id as text) is null or run_id = :run_id)
   and (cast(:shape as text) is null or shape = :shape)
   and (cast(:recorded_after as bigint) is null or recorded_at > :recorded_after)
   and (cast(:unresolved as text) is null or resolved_at is null)
 order by run_id desc, generation desc
 limit :limit;

-- name: list_queues
-- Every queue that has open runs, and what they do: each run is counted once.
select queue,
       count(*) filter (where state = 'ready' and not hold and crashes = 0),
       count(*) filter (where state = 'leased'),
       count(*) filter (where state = 'waiting' and not hold),
       count(*) filter (where state <> 'leased' and hold),
       count(*) filter (where state = 'ready' and not hold and crashes > 0),
       min(since_at) filter (where state = 'ready' and not hold and crashes = 0)
  from stepfast.task
 group by queue
 order by queue;

-- name: list_family
-- What may be taken of a run and its open descendants, by place, and behind it what falls due later, by its moment.
with recursive family (run_id) as (
    select t.run_id
      from stepfast.task t
     where t.run_id = :run_id
    union all
    select t.run_id
      from family
     cross join stepfast.run r
     cross join stepfast.task t
     where r.parent_id = family.run_id
       and t.run_id = r.run_id
)
select m.run_id, m.queue, m.code, m.crashes, m.later_at
  from (select t.run_id, t.queue, t.code, t.crashes, t.place,
               case when t.state = 'waiting' and t.due_at > (select stepfast.now_ms()) then t.due_at end as later_at
          from family
         cross join stepfast.task t
         where t.run_id = family.run_id
           and not t.hold
           and (t.state = 'ready' or (t.state = 'waiting' and t.due_at is not null))) m
 order by coalesce(m.later_at, 0), m.place, m.run_id
 limit :limit;

-- name: list_lines
-- Every queue and code that has ready runs, and how many up to a limit: one look into the index for each of them.
with recursive served (queue) as (
    select (select t.queue
              from stepfast.task t
             where t.state = 'ready'
               and not t.hold
               and t.crashes = 0
             order by t.queue
             limit 1)
    union all
    select (select t.queue
              from stepfast.task t
             where t.queue > q.queue
               and t.state = 'ready'
               and not t.hold
               and t.crashes = 0
             order by t.queue
             limit 1)
      from served q
     where q.queue is not null
), line (queue, code) as (
    select q.queue,
           (select t.code
              from stepfast.task t
             where t.queue = q.queue
               and t.state = 'ready'
               and not t.hold
               and t.crashes = 0
             order by t.code
             limit 1)
      from served q
     where q.queue is not null
    union all
    select l.queue,
           (select t.code
              from stepfast.task t
             where t.queue = l.queue
               and t.code > l.code
               and t.state = 'ready'
               and not t.hold
               and t.crashes = 0
             order by t.code
             limit 1)
      from line l
     where l.code is not null
)
select l.queue, l.code,
       (select count(*)
          from (select 1
                  from stepfast.task t
                 where t.queue = l.queue
                   and t.code = l.code
                   and t.state = 'ready'
                   and not t.hold
                   and t.crashes = 0
                 limit :limit) counted)
  from line l
 where l.code is not null
 order by l.queue, l.code;

-- name: count_suspects
-- How many runs have lost a worker and stand in line, up to a limit, and whether there is any open run at all.
select (select count(*)
          from (select 1
                  from stepfast.task t
                 where t.state = 'ready'
                   and not t.hold
                   and t.crashes > 0
                 order by t.queue, t.crashes
                 limit :limit) counted),
       exists (select 1 from stepfast.task);

-- The invariant of unended runs, a statement for each clause: what it answers with should not be. Clauses that no index
-- can answer look at the newest runs only, those behind `:runs_after` and `:tasks_after`, and look up the rest one by
-- one: a subquery that gives a value is never turned into a join over all that is stored. SQLite takes the tables of a
-- cross join in the order in which they are written.

-- name: reach_of_runs
-- The run that lies so many behind the newest; nothing when there are not so many.
select run_id
  from stepfast.run
 order by run_id desc
 limit 1
offset :reach;

-- name: reach_of_tasks
-- The same among those that have not ended.
select run_id
  from stepfast.task
 order by run_id desc
 limit 1
offset :reach;

-- name: find_run_without_task
-- A run that has not ended in its newest generation, and is in no line.
select r.run_id, r.tenant,
       'generation '
       || cast(coalesce((select max(g.generation) from stepfast.generation g where g.run_id = r.run_id), 1) as text)
       || ' has neither task nor outcome'
  from stepfast.run r
 where r.run_id > :runs_after
   and (select 1 from stepfast.task t where t.run_id = r.run_id) is null
   and (select 1
          from stepfast.outcome o
         where o.run_id = r.run_id
           and o.generation = coalesce(
                   (select max(g.generation) from stepfast.generation g where g.run_id = r.run_id), 1)) is null
 order by r.run_id
 limit :limit;

-- name: find_task_of_ended_run
-- A run that has ended in this generation, and is still in the line.
select e.run_id, e.tenant, 'generation ' || cast(e.generation as text) || ' is ' || e.state || ' and still in the line'
  from (select t.run_id, t.tenant, t.generation,
               (select o.state from stepfast.outcome o where o.run_id = t.run_id and o.generation = t.generation) as state
          from stepfast.task t
         where t.run_id > :tasks_after) e
 where e.state is not null
 order by e.run_id
 limit :limit;

-- name: find_holder_gone
-- A run that is held by a worker that is dead or unknown; upkeep gives it back. One look into the index for each holder.
with recursive holder (worker_id) as (
    select (select t.worker_id
              from stepfast.task t
             where t.state = 'leased'
             order by t.worker_id
             limit 1)
    union all
    select (select t.worker_id
              from stepfast.task t
             where t.worker_id > h.worker_id
               and t.state = 'leased'
             order by t.worker_id
             limit 1)
      from holder h
     where h.worker_id is not null
)
select t.run_id, t.tenant, 'leased by worker ' || cast(t.worker_id as text)
  from holder h
 cross join stepfast.task t
 where t.worker_id = h.worker_id
   and t.state = 'leased'
   and not exists (select 1 from stepfast.worker w where w.worker_id = h.worker_id and w.dead_at is null)
 order by t.run_id
 limit :limit;

-- name: find_waiting_for_nothing
-- A run that waits, and nothing can wake it.
select t.run_id, t.tenant, 'waiting without a wait'
  from stepfast.task t
 where t.run_id > :tasks_after
   and t.state = 'waiting'
   and (select 1 from stepfast.wait w where w.run_id = t.run_id limit 1) is null
 order by t.run_id
 limit :limit;

-- name: find_wait_long_due
-- A run whose wait is long over, and which nobody has taken up. One look into the index for each queue.
with recursive due (queue) as (
    select (select t.queue
              from stepfast.task t
             where t.state = 'waiting'
               and t.due_at is not null
               and not t.hold
             order by t.queue
             limit 1)
    union all
    select (select t.queue
              from stepfast.task t
             where t.queue > q.queue
               and t.state = 'waiting'
               and t.due_at is not null
               and not t.hold
             order by t.queue
             limit 1)
      from due q
     where q.queue is not null
)
select t.run_id, t.tenant, w.kind || ' ' || w.name || ', due at ' || cast(w.due_at as text)
  from due q
 cross join stepfast.task t
 cross join stepfast.wait w
 where t.queue = q.queue
   and t.due_at < (select stepfast.now_ms()) - :long_due_ms
   and t.due_at is not null
   and t.state = 'waiting'
   and not t.hold
   and w.run_id = t.run_id
   and w.due_at < (select stepfast.now_ms()) - :long_due_ms
 order by t.run_id, w.wait_id
 limit :limit;

-- name: find_wait_forgotten
-- A run whose wait is long over, and which has no moment at which anybody would take it up; to one that waits for code
-- such a moment would be of no use.
select d.run_id, d.tenant, 'waits beyond ' || cast(d.due_at as text) || ', when a wait of it was over'
  from (select t.run_id, t.tenant,
               (select case when count(*) filter (where w.kind = 'code') = 0 then min(w.due_at) end
                  from stepfast.wait w
                 where w.run_id = t.run_id) as due_at
          from stepfast.task t
         where t.run_id > :tasks_after
           and t.state = 'waiting'
           and t.due_at is null
           and not t.hold) d
 where d.due_at < (select stepfast.now_ms()) - :long_due_ms
 order by d.run_id
 limit :limit;

-- name: find_lasting_trouble
-- A run that is handed back again and again for trouble which does not pass by itself, such as a blob that is gone.
select w.run_id, w.tenant, e.data
  from stepfast.wait w
 cross join stepfast.event e
 where e.run_id = w.run_id
   and w.run_id > :tasks_after
   and w.wait_id = 0
   and w.kind = 'backoff'
   and e.seq = (select max(h.seq) from stepfast.event h where h.run_id = w.run_id and h.type = 'handed_back')
   and e.data like '%"is_lasting": true}'
 order by w.run_id
 limit :limit;
