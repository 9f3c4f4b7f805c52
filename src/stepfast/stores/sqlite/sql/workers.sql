-- name: enrol
-- A worker announces itself, or says again what it is; one that was buried stays dead.
insert into worker (worker_id, label, host, pid, queues, codes, lacks, crew, lease_ms, started_at, seen_at)
values (:worker_id, :label, :host, :pid, :queues, :codes, :lacks, :crew, :lease_ms, :now, :now)
    on conflict (worker_id) do update
   set label = excluded.label, host = excluded.host, pid = excluded.pid, queues = excluded.queues,
       codes = excluded.codes, lacks = excluded.lacks, crew = excluded.crew, lease_ms = excluded.lease_ms,
       seen_at = excluded.seen_at
 where dead_at is null;

-- name: forget_dead
-- Rows of workers that died more than a day ago, a bounded number of them: whoever comes clears up behind those who left.
delete from worker
 where worker_id in (
           select worker_id
             from worker
            where dead_at < :now - 86400000
            order by dead_at
            limit 1000
       );

-- name: turns
-- Who was served last in each queue: by the crew, or where nobody of it was here yet, by whoever left last. One that was
-- killed leaves no word but what it held, until it is buried.
select q.value,
       coalesce((select served.tenant
                   from (select t.tenant, t.left_at as at
                           from turn t
                          where t.queue = q.value
                            and t.crew = :crew
                          union all
                         select t.tenant, t.since_at
                           from worker
                          cross join task t
                          where worker.crew = :crew
                            and t.worker_id = worker.worker_id
                            and t.state = 'leased'
                            and t.queue = q.value) served
                  order by served.at desc, served.tenant desc
                  limit 1),
                (select t.tenant
                   from turn t
                  where t.queue = q.value
                  order by t.left_at desc, t.crew desc
                  limit 1)) as tenant
  from json_each(:queues) q
 where tenant is not null;

-- name: forget_turns
-- Crews that nobody was of for a month: each definition that is registered makes another one.
delete from turn
 where queue in (select value from json_each(:queues))
   and left_at < :now - 2592000000;

-- name: note_turn
-- Who was served last in a queue by a worker that leaves.
insert into turn (queue, crew, tenant, left_at)
values (?, ?, ?, ?)
    on conflict (queue, crew) do update
   set tenant = excluded.tenant, left_at = excluded.left_at;

-- name: standing
-- The label of a worker that is alive, and those of its queues in which a waiting run is due.
select label,
       (select json_group_array(q.value)
          from json_each(:queues) q
         where exists (select 1
                         from task t
                        where t.queue = q.value
                          and t.state = 'waiting'
                          and t.hold = 0
                          and t.due_at <= :now))
  from worker
 where worker_id = :worker_id
   and dead_at is null;

-- name: live_label
-- The label of a worker that is alive.
select label
  from worker
 where worker_id = ?
   and dead_at is null;

-- name: beat
-- A worker that is alive says so; it is answered with what it holds.
update worker
   set seen_at = now_ms()
 where worker_id = :worker_id
   and dead_at is null;

-- name: holdings
-- What a worker holds by the store's account, as one value.
select json_group_array(json_array(run_id, token, wakes, hold))
  from (select run_id, token, wakes, hold
          from task
         where worker_id = :worker_id
           and state = 'leased'
         order by run_id) held;

-- name: keep
-- An upkeep pass counts as a heartbeat of whoever makes it, where the last one is a while ago.
update worker
   set seen_at = :now
 where worker_id = :worker_id
   and dead_at is null
   and seen_at + lease_ms / 10 <= :now
returning 1;

-- name: keep_alone
-- The same by a statement of its own. One whose lease is over is left to the pass, which may have to bury it.
update worker
   set seen_at = now_ms()
 where worker_id = :worker_id
   and dead_at is null
   and (select now_ms()) between seen_at + lease_ms / 10 and seen_at + lease_ms;

-- name: look
-- What a pass would find: when the first lease is over, the moment, the newest definition, and whether there is anything
-- to do for others than those whose lease is over. All of it as one value, so that it can be the answer to `keep_alone`;
-- the statements in braces are those of a pass.
select json_array(
           ({silent_at}),
           now_ms(),
           ({newest_definition}),
           exists ({dead_holders})
           or exists (
               select 1
                 from task
                where deadline_at <= (select now_ms())
                  and state <> 'leased'
                  and exists (select 1 from run r where r.run_id = task.run_id)
           )
           or exists (select 1 from unjoined)
       );

-- name: mark_dead
-- A worker leaves.
update worker
   set dead_at = :now
 where worker_id = :worker_id
   and dead_at is null
returning worker_id;

-- name: codes_that_stay
-- What workers that are gone could execute and others who are alive can, too.
select json_group_array(distinct c.value)
  from worker w, json_each(w.codes) c
 where w.worker_id in (select value from json_each(?))
   and c.value in (select n.value from worker, json_each(worker.codes) n where worker.dead_at is null);

-- name: bury
-- Workers whose lease ran out are dead for good.
update worker
   set dead_at = :now
 where dead_at is null
   and seen_at + lease_ms < :now
returning worker_id;

-- name: silent_at
-- When the first lease of a living worker is over.
select min(seen_at + lease_ms)
  from worker
 where dead_at is null;

-- name: silent_holds
-- Whether a worker that nobody has buried although its lease is over holds runs.
select exists (
    select 1
      from worker
     where dead_at is null
       and seen_at + lease_ms < :now
       and exists (select 1 from task t where t.worker_id = worker.worker_id and t.state = 'leased')
);

-- name: dead_holders
-- The holders of leased runs that are dead or unknown: one look into the index for each holder.
with recursive holder (worker_id) as (
    select min(worker_id) from task where state = 'leased'
    union all
    select (select min(t.worker_id) from task t where t.state = 'leased' and t.worker_id > holder.worker_id)
      from holder
     where holder.worker_id is not null
)
select holder.worker_id
  from holder
 where holder.worker_id is not null
   and not exists (select 1 from worker w where w.worker_id = holder.worker_id and w.dead_at is null);

-- name: orphans
-- Runs that a worker left behind. Strikes count in a row: whoever has recorded the end of a step since the last death has
-- brought the run on, also one that has handed it back. Both are looked for from the end, for a run may be long.
select t.run_id, t.tenant, t.generation, t.token, t.crashes,
       case when t.strikes = 0 then 0
            when (select s.token
                    from step s
                   where s.run_id = t.run_id
                     and s.state in ('completed', 'failed')
                   order by s.seq desc
                   limit 1) > (select e.token
                                 from event e
                                where e.run_id = t.run_id
                                  and e.type = 'reaped'
                                order by e.seq desc
                                limit 1) then 0
            else t.strikes
       end,
       r.workflow, coalesce(g.version, r.version), r.parent_id, r.parent_wait, r.leave,
       exists (select 1 from spent where spent.run_id = t.run_id)
  from task t
  join run r on r.run_id = t.run_id
  left join generation g on g.run_id = t.run_id
                        and g.generation = t.generation
 where t.worker_id = ?
   and t.state = 'leased'
 order by t.run_id
 limit ?;

-- name: overdue
-- Runs that nobody holds and whose deadline has passed, the longest overdue first.
select run_id
  from task
 where deadline_at <= :now
   and state <> 'leased'
   and exists (select 1 from run r where r.run_id = task.run_id)
 order by deadline_at, run_id
 limit :limit;

-- name: unjoined_children
-- Open children of the first groups that nobody will join, except those that may outlive their parent. `cross join`
-- keeps the order of the tables: children are looked up, never all runs that have a parent.
select r.run_id
  from (select run_id, wait_id from unjoined order by run_id, wait_id limit :limit) u
 cross join run r on r.parent_id = u.run_id
                 and r.parent_wait = u.wait_id
 cross join task t on t.run_id = r.run_id
 where r.leave = 0
 order by u.run_id, u.wait_id, r.run_id
 limit :limit;

-- name: forget_unjoined
-- Those of the first groups that have no such children any more.
delete from unjoined
 where (run_id, wait_id) in (select run_id, wait_id from unjoined order by run_id, wait_id limit :limit)
   and not exists (select 1
                     from run r
                    cross join task t on t.run_id = r.run_id
                    where r.parent_id = unjoined.run_id
                      and r.parent_wait = unjoined.wait_id
                      and r.leave = 0);

-- name: count_crash
-- The death of its holder counts for a run, and shuts out whatever that holder may still send.
update task
   set crashes = crashes + 1, strikes = ?, token = token + 1
 where run_id = ?;

-- name: return_orphan
-- A run that lost its holder goes back to the line at its old place.
update task
   set state = 'ready', worker_id = null, since_at = ?
 where run_id = ?;

-- name: set_aside
-- A run whose rows do not let it end waits for nothing but a person.
update task
   set state = 'waiting', worker_id = null, token = token + 1, due_at = null, deadline_at = null, since_at = ?
 where run_id = ?;

-- name: set_spent_aside
-- Those of given runs, leased or not, whose numbers are spent wait for nothing but a person.
update task
   set state = 'waiting', worker_id = null, due_at = null, deadline_at = null, since_at = :now
 where run_id in (select value from json_each(:runs))
   and (state = 'leased') = :leased
   and exists (select 1 from spent where spent.run_id = task.run_id)
returning run_id;

-- name: retired
-- What a worker that leaves still holds.
select run_id, tenant, generation, token
  from task
 where worker_id = ?
   and state = 'leased'
 order by run_id;

-- name: waiting_for_code
-- Runs that wait for a worker with other code, and whose code the list has.
select t.run_id, t.tenant, t.generation, t.token
  from wait w
  join task t on t.run_id = w.run_id
 where w.kind = 'code'
   and t.state = 'waiting'
   and t.code in (select value from json_each(?))
   and not exists (select 1 from spent where spent.run_id = t.run_id)
 order by t.run_id;

-- name: end_code_wait
-- A run no longer waits for other code.
delete from wait
 where run_id = ?
   and kind = 'code';

-- name: wake
-- A waiting run joins the line.
update task
   set state = 'ready', due_at = null, since_at = ?
 where run_id = ?;

-- name: newest_definition
-- The number of the definition that was registered last.
select coalesce(max(number), 0)
  from definition;
