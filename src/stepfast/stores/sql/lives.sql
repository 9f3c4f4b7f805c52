-- What is read when a run is reconstructed, or asked why it stands still, and at no other time.

-- name: list_generations
-- Every life of a run with its end, if it has one.
select l.generation, l.version, l.code, l.definition, l.input, l.cause, l.actor, l.reason, l.opened_at, o.state, o.value,
       o.error, o.ended_at
  from (select r.run_id, 1 as generation, r.version, r.code, r.definition, r.input, null as cause, r.actor,
               null as reason, r.queued_at as opened_at
          from stepfast.run r
         where r.run_id = :run_id
         union all
        select g.run_id, g.generation, g.version, g.code, g.definition, g.input, g.cause, g.actor, g.reason, g.opened_at
          from stepfast.generation g
         where g.run_id = :run_id) l
  left join stepfast.outcome o on o.run_id = l.run_id
                              and o.generation = l.generation
 order by l.generation;

-- name: list_children
-- The runs that a run has started, oldest first; all of them, or those of a kind whose metadata is like something.
select s.run_id, s.tenant, s.workflow, s.version, s.kind, s.state, s.generation, s.queue, s.priority, s.queued_at,
       s.updated_at, s.ended_at, s.worker_id, s.token, s.crashes, s.claims, s.parent_id, s.key, s.actor,
       s.correlation_id, s.causation_id, s.thread_id, s.subject, s.metadata, s.input, s.value, s.error, s.code,
       s.definition,
       (select cast(json_agg(g.tag order by g.tag) as text) from stepfast.run_tag g where g.run_id = s.run_id)
  from stepfast.run_state s
 where s.parent_id = :run_id
   and (cast(:after as text) is null or s.run_id > :after)
   and (cast(:kind as text) is null or s.kind = :kind)
   and (cast(:metadata as text) is null or s.metadata like :metadata)
 order by s.run_id
 limit :limit;

-- name: list_open_children
-- Those that have not ended of the newest runs that a wait stands for. Ended ones count too for how many are looked at:
-- a wait may stand for a million.
select s.run_id, s.workflow, s.code, s.queue, s.state, s.worker_id,
       exists (select 1 from stepfast.wait w where w.run_id = s.run_id and w.kind = 'code')
  from (select r.run_id
          from stepfast.run r
         where r.parent_id = :run_id
           and r.parent_wait = :wait_id
         order by r.run_id desc
         limit :limit) c
 cross join stepfast.run_state s
 where s.run_id = c.run_id
   and s.ended_at is null
 order by s.run_id desc;

-- name: list_answered
-- The runs that a command for many was carried out on under a key, newest first, those behind a run. The key of each is
-- made of it and the run's id, and '0' comes next after '/'. Tenants are gone through one by one, as all rows, of which
-- each start with a key has one, are many; of each only so many keys are read as one answer holds, however many there are.
with recursive whose (tenant) as (
select min(k.tenant)
  from stepfast.idempotency k
 where k.tenant >= ''
   and (cast(:tenant as text) is null or k.tenant = :tenant)
 union all
select (select min(k.tenant) from stepfast.idempotency k where k.tenant > w.tenant)
  from whose w
 where w.tenant is not null
   and (cast(:tenant as text) is null or w.tenant < :tenant)
), bounded as materialized (
select w.tenant,
       (select k.key
          from stepfast.idempotency k
         where k.tenant = w.tenant
           and k.command = :command
           and k.key > cast(:key as text) || '/'
           and k.key < cast(:key as text) || coalesce('/' || cast(:before as text), '0')
           and k.key = cast(:key as text) || '/' || cast(k.run_id as text)
         order by k.key desc
         limit 1 offset cast(:limit as integer) - 1) as least_key
  from whose w
)
select k.run_id
  from bounded b
  join stepfast.idempotency k on k.tenant = b.tenant
 where k.command = :command
   and k.key >= coalesce(b.least_key, cast(:key as text) || '/')
   and k.key < cast(:key as text) || coalesce('/' || cast(:before as text), '0')
   and k.key = cast(:key as text) || '/' || cast(k.run_id as text)
 order by k.run_id desc
 limit :limit;
