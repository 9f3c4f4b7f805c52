-- name: find_run
-- A run as a command sees it, and what its rows are written by.
select s.run_id, s.tenant, s.workflow, s.version, s.kind, s.code, s.input, s.generation, s.state, t.state,
       coalesce(t.hold, 0),
       coalesce(t.due_at > :now, 0)
       and exists (select 1 from wait w where w.run_id = s.run_id)
       and not exists (select 1
                         from wait w
                        where w.run_id = s.run_id
                          and w.kind not in ('delay', 'backoff')),
       s.error, r.parent_id, r.parent_wait,
       exists (select 1 from wait w where w.run_id = r.parent_id and w.wait_id = r.parent_wait),
       exists (select 1
                 from dead_letter d
                where d.run_id = s.run_id
                  and d.generation = s.generation
                  and d.resolved_at is null),
       t.deadline_at, s.claims, r.leave, s.definition,
       exists (select 1 from wait w where w.run_id = s.run_id and w.kind = 'code'),
       s.queue, s.token, coalesce(t.wakes, 0), s.worker_id
  from run_state s
  join run r on r.run_id = s.run_id
  left join task t on t.run_id = s.run_id
 where s.run_id = :run_id
   and (:tenant is null or s.tenant = :tenant);

-- name: list_marks
-- The records that commands go by. A failure whose exception item somebody has resolved is nothing to tell of any more.
select seq, path, name, count, state,
       case when kind = 'borne' and not exists (select 1
                                                  from exception_item i
                                                 where i.run_id = step.run_id
                                                   and i.cause = 'step:' || step.seq
                                                   and i.resolved_at is null)
            then 'set' else kind end
  from step
 where run_id = ?
   and superseded_by is null
 order by seq;

-- name: last_step
-- The number of a run's last record, whether it counts or not.
select coalesce(max(seq), 0)
  from step
 where run_id = ?;

-- name: find_answer
-- What a key was used for before, and what was answered.
select digest, answer
  from idempotency
 where tenant = ?
   and command = ?
   and key = ?;

-- name: keep_answer
-- A key is used once; what comes again is answered the same.
insert into idempotency (tenant, command, key, digest, run_id, answer, at)
values (?, ?, ?, ?, ?, ?, ?);

-- name: take_untold
-- Commands that the holder of a run was to carry out, and can tell no more.
delete from inbox
 where run_id = ?
   and kind in (select value from json_each(?))
returning n, kind, name, at, actor, value;

-- name: hold
-- A person holds a run, or lets it go on. One that was taken back to before all that it waited for does not wait.
update task
   set hold = :hold,
       state = case when t.goes_on then 'ready' else state end,
       due_at = case when t.goes_on then null else due_at end,
       since_at = case when state = 'leased' then since_at else :now end
  from (
           select :ready or (
                      h.state = 'waiting'
                      and not exists (select 1 from wait w where w.run_id = h.run_id)
                  ) as goes_on
             from task h
            where h.run_id = :run_id
       ) t
 where run_id = :run_id;

-- name: raise_token
-- Whatever the holder of a run may still send comes too late.
update task
   set token = token + 1
 where run_id = ?;

-- name: reopen
-- An ended run joins the line again, at the place that it had at first. Its messages are numbered on: records name
-- those that were taken, and signals that nobody took are there still.
insert into task (run_id, queue, tenant, code, place, state, generation, deadline_at, token, since_at, wakes)
select run_id, queue, tenant, :code, queued_at - priority * :priority_ms, 'ready', :generation, :now + timeout_ms,
       :token, :now,
       max((select coalesce(max(e.data ->> 'n'), 0) from event e where e.run_id = run.run_id and e.type = 'signalled'),
           (select coalesce(max(m.n), 0) from inbox m where m.run_id = run.run_id))
  from run
 where run_id = :run_id;

-- name: resolve_letter
-- Somebody has seen to a dead letter.
update dead_letter
   set resolved_at = ?, resolution = ?, actor = ?
 where run_id = ?
   and generation = ?;
