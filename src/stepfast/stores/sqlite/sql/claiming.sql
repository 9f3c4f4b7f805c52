-- name: look
-- Whether a worker is alive and finds anything ready, when the next waiting run of its queues falls due, and the moment.
-- `cross join` keeps the order of the tables: each queue, code and tenant is one look into the index.
select exists (select 1 from worker where worker_id = :worker_id and dead_at is null),
       exists (
           select 1
             from json_each(:queues) q
            cross join json_each(:codes) c
            cross join task t on t.queue = q.value
                             and t.code = c.value
            where :tenants is null
              and t.state = 'ready'
              and t.hold = 0
              and t.crashes = 0
       )
       or exists (
           select 1
             from json_each(:queues) q
            cross join json_each(:codes) c
            cross join json_each(:tenants) n
            cross join task t on t.queue = q.value
                             and t.code = c.value
                             and t.tenant = n.value
            where t.state = 'ready'
              and t.hold = 0
              and t.crashes = 0
       )
       or exists (
           select 1
             from json_each(:queues) q
            cross join task t on t.queue = q.value
            where t.state = 'ready'
              and t.hold = 0
              and t.crashes > 0
              and t.code in (select value from json_each(:codes))
              and (:tenants is null or t.tenant in (select value from json_each(:tenants)))
       ),
       (
           select min((
                      select min(t.due_at)
                        from task t
                       where t.queue = q.value
                         and t.state = 'waiting'
                         and t.due_at is not null
                         and t.hold = 0
                  ))
             from json_each(:queues) q
       ),
       now_ms();

-- name: promote_due
-- Waiting runs whose moment has come join the line, the longest due first.
update task
   set state = 'ready', due_at = null, since_at = :now
 where run_id in (select run_id
                    from task
                   where queue = :queue
                     and state = 'waiting'
                     and hold = 0
                     and due_at <= :now
                   order by due_at
                   limit :limit);

-- name: next_due
-- When the next waiting run of a queue falls due.
select min(due_at)
  from task
 where queue = ?
   and state = 'waiting'
   and due_at is not null
   and hold = 0;

-- name: next_tenants
-- For each code the first tenant after one that has ready runs for it, as one value: a look into the index for each, and
-- the thread that holds the file's lock is given its turn once.
select json_group_array(json_array(c.value, (
           select t.tenant
             from task t
            where t.queue = :queue
              and t.code = c.value
              and t.tenant > :tenant
              and t.state = 'ready'
              and t.hold = 0
              and t.crashes = 0
            order by t.tenant
            limit 1
       )))
  from json_each(:codes) c;

-- name: first_tenants
-- The same, but the tenant itself will do.
select json_group_array(json_array(c.value, (
           select t.tenant
             from task t
            where t.queue = :queue
              and t.code = c.value
              and t.tenant >= :tenant
              and t.state = 'ready'
              and t.hold = 0
              and t.crashes = 0
            order by t.tenant
            limit 1
       )))
  from json_each(:codes) c;

-- name: next_tenant
-- The first tenant after one that has ready runs for a code: one look into the index, however many runs there are.
select tenant
  from task
 where queue = ?
   and code = ?
   and tenant > ?
   and state = 'ready'
   and hold = 0
   and crashes = 0
 order by tenant
 limit 1;

-- name: this_or_next_tenant
-- The same, but the tenant itself will do.
select tenant
  from task
 where queue = ?
   and code = ?
   and tenant >= ?
   and state = 'ready'
   and hold = 0
   and crashes = 0
 order by tenant
 limit 1;

-- name: next_tenant_as_stored
-- The same as the first, as bytes: somebody may have put such there that are no text.
select cast(tenant as blob)
  from task
 where queue = ?
   and code = ?
   and tenant > cast(? as text)
   and state = 'ready'
   and hold = 0
   and crashes = 0
 order by tenant
 limit 1;

-- name: tenant_line
-- A tenant's ready runs for a code after a place in its line, as one value.
select json_group_array(json_array(place, run_id))
  from (select place, run_id
          from task
         where queue = ?
           and code = ?
           and tenant = ?
           and (place, run_id) > (?, ?)
           and state = 'ready'
           and hold = 0
           and crashes = 0
         order by place, run_id
         limit ?) piece;

-- name: suspect_level
-- The fewest crashes of a suspect that this worker could take.
select min(crashes)
  from task
 where queue = :queue
   and state = 'ready'
   and hold = 0
   and crashes > 0
   and code in (select value from json_each(:codes))
   and (:tenants is null or tenant in (select value from json_each(:tenants)));

-- name: suspect_line
-- Suspects with so many crashes, by their place in the line.
select run_id
  from task
 where queue = :queue
   and state = 'ready'
   and hold = 0
   and crashes = :crashes
   and crashes > 0
   and code in (select value from json_each(:codes))
   and (:tenants is null or tenant in (select value from json_each(:tenants)))
 order by place, run_id
 limit :room;

-- name: code_of_free
-- The code of a run that somebody may take right now: it is ready or due, and nobody holds it.
select code
  from task
 where run_id = :run_id
   and hold = 0
   and (state = 'ready' or (state = 'waiting' and due_at <= :now));

-- name: lease
-- A worker takes ready runs; their tokens rise even when the same worker had them before.
update task
   set state = 'leased', worker_id = :worker_id, token = token + 1, claims = claims + 1, due_at = null,
       since_at = :now
 where run_id in (select value from json_each(:runs))
   and not exists (select 1 from spent where spent.run_id = task.run_id);

-- name: end_delays
-- Claimed runs no longer wait for their own next try, nor for code: whether this worker's fits is found out anew. The
-- backoff of a step, whose id is the number of its record, is closed by the step's next record.
delete from wait
 where run_id in (select value from json_each(:runs))
   and wait_id <= 0
   and kind in ('delay', 'backoff', 'code');

-- name: tell_claimed
-- That runs were claimed; their holder counts on from there. Of those that are to ask after outside work it tells by
-- itself, if anything comes of it.
insert into event (run_id, seq, tenant, generation, type, at, token, data)
select t.run_id, (select coalesce(max(e.seq), 0) + 1 from event e where e.run_id = t.run_id), t.tenant, t.generation,
       'claimed', :now, t.token, :data
  from json_each(:runs)
 cross join task t
 where t.run_id = json_each.value
   and (t.claims = 1 or not exists (
           select 1 from wait w where w.run_id = t.run_id and w.kind = 'outside' and w.due_at is not null
       ))
 order by json_each.key;

-- name: held_runs
-- Leased runs as their holder knows them, in the order of HeldRun, as far as it holds them still.
select t.run_id, t.tenant, r.workflow, coalesce(g.version, r.version), r.kind, t.queue, t.generation, t.token,
       t.worker_id, coalesce(g.input, r.input), t.wakes, t.hold, t.claims, t.crashes,
       (select coalesce(max(s.seq), 0) from step s where s.run_id = t.run_id),
       (select coalesce(max(e.seq), 0) from event e where e.run_id = t.run_id),
       r.queued_at, t.deadline_at, t.tries, r.parent_id, r.parent_wait, r.actor, r.correlation_id, r.causation_id,
       r.thread_id, r.subject, r.metadata, r.leave,
       case when t.generation > 1 then coalesce((
           select max(s.seq) from step s where s.run_id = t.run_id and s.generation < t.generation
       ), 0) else 0 end,
       case when g.run_id is null then r.definition else g.definition end,
       case when t.generation > 1 then coalesce((
           select e.generation
             from generation e
            where e.run_id = t.run_id and e.cause in ('continue_as', 'rerun')
            order by e.generation desc
            limit 1
       ), 1) else 1 end,
       -- The first commit of its code tells that it has begun. A record that a person gave says nothing of that, nor does
       -- an earlier claim: whoever had it may have handed it back, or died, before.
       case when t.claims = 1 then 0
            when (
                select s.generation = t.generation and s.kind <> 'given'
                  from step s
                 where s.run_id = t.run_id
                 order by s.seq desc
                 limit 1
            ) then 1
            else exists (
                select 1
                  from event e
                 where e.run_id = t.run_id
                   and e.seq > coalesce((
                           select o.seq from outcome o where o.run_id = t.run_id and o.generation = t.generation - 1
                       ), 0)
                   and e.generation = t.generation
                   and e.type = 'started'
            )
        end
  from json_each(:runs)
 cross join task t
 cross join run r
  left join generation g on g.run_id = t.run_id
                        and g.generation = t.generation
 where t.run_id = json_each.value
   and t.worker_id = :worker_id
   and t.state = 'leased'
   and r.run_id = t.run_id
 order by json_each.key;
