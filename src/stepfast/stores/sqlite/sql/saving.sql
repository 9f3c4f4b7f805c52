-- What a commit gathers is written statement by statement, in the order of this file.

-- name: fences
-- Who holds the runs of a list, how often something has come for them, whether it is there still, and whether they wait
-- for anything: as one value, for which the thread is given its turn once.
select json_group_object(t.run_id, json_array(t.token, t.worker_id, t.wakes,
                                              exists (select 1 from inbox m where m.run_id = t.run_id),
                                              exists (select 1 from wait w where w.run_id = t.run_id)))
  from task t
 where t.run_id in (select value from json_each(?));

-- name: saved_before
-- Whether an earlier try of the same commit has written this event.
select exists (select 1 from event where run_id = ? and seq = ? and token = ? and type = ?);

-- name: insert_step
-- One record.
insert into step (run_id, seq, tenant, generation, path, name, count, kind, state, attempt, digest, input, value, error,
                  started_at, ended_at, due_at, token)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: close_wait
-- What has come is not waited for any more.
delete from wait
 where run_id = ?
   and wait_id = ?;

-- name: take_inbox
-- What the run's code has been given is not given again.
delete from inbox
 where run_id = ?
   and n = ?;

-- name: open_wait
-- One thing that a run waits for.
insert into wait (run_id, wait_id, tenant, generation, kind, name, path, count, opened_at, due_at, need, spare,
                  total)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: open_review
-- What a person is asked.
insert into review (run_id, wait_id, tenant, generation, workflow, step, kind, title, shown, digest, verdicts,
                    value_schema, assignee, role, quorum, quorum_reject, expires_ms, on_expiry, escalate_to,
                    escalate_role, subject, opened_at, due_at)
select r.run_id, :wait_id, r.tenant, :generation, r.workflow, :step, :kind, :title, :shown, :digest, :verdicts,
       :schema, :assignee, :role, :quorum, :quorum_reject, :expires_ms, :on_expiry, :escalate_to, :escalate_role,
       r.subject, :now, :now + :expires_ms
  from run r
 where r.run_id = :run_id;

-- name: delete_tasks
-- Ended runs are in no line; what their waits leave behind tells by that.
delete from task
 where run_id in (select value from json_each(?));

-- name: delete_waits
-- Runs that have ended wait for nothing, nor do those that begin their next life.
delete from wait
 where run_id in (select value from json_each(?));

-- name: park
-- The run waits, at the latest until the first of its waits falls due; one that waits for code has use for no other end.
-- Its worker outlived it, so it is no suspect.
update task
   set state = 'waiting', worker_id = null, since_at = ?, crashes = 0, strikes = 0,
       due_at = (select case when count(*) filter (where w.kind = 'code') = 0 then min(w.due_at) end
                   from wait w
                  where w.run_id = task.run_id)
 where run_id = ?;

-- name: hand_back
-- The run goes back to the line at its old place.
update task
   set state = 'ready', worker_id = null, token = token + 1, since_at = ?
 where run_id = ?;

-- name: put_off
-- The run goes back, to be tried again later.
update task
   set state = 'waiting', worker_id = null, token = token + 1, since_at = ?, due_at = ?
 where run_id = ?;

-- name: insert_backoff
-- What a run that is tried again later waits for.
insert into wait (run_id, wait_id, tenant, generation, kind, name, path, count, opened_at, due_at)
values (?, 0, ?, ?, 'backoff', 'backoff', '', 0, ?, ?);

-- name: insert_outcome
-- How a generation ended.
insert into outcome (run_id, generation, tenant, state, value, error, seq, token, ended_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: tell_owed
-- What their holder had no time to tell is told behind the end of runs; each is listed with its generation and token.
insert into event (run_id, seq, tenant, generation, type, at, step, token, actor, data)
select m.run_id,
       (select max(e.seq) from event e where e.run_id = m.run_id)
       + (select count(*) from inbox o where o.run_id = m.run_id and o.n <= m.n and o.told = 0 and o.kind <> 'signal'),
       m.tenant, json_each.value ->> 1, m.kind, m.at, nullif(m.name, ''), json_each.value ->> 2, m.actor, m.value
  from json_each(?)
 cross join inbox m
 where m.run_id = json_each.value ->> 0
   and m.told = 0
   and m.kind <> 'signal'
 order by json_each.key, m.n;

-- name: delete_inboxes
-- Ended runs take nothing. Signals that nobody took stay: the run may be opened again.
delete from inbox
 where run_id in (select value from json_each(?))
   and kind <> 'signal';

-- name: insert_dead_letter
-- A run out of attempts that nobody awaits.
insert into dead_letter (run_id, generation, tenant, workflow, version, step, error_type, message, shape, recorded_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: count_children
-- Ended children count toward their group; answers whether these decide it, which happens once.
update wait
   set got = got + :got, failed = failed + :failed
 where run_id = :parent_id
   and wait_id = :wait_id
returning (got >= need or failed > spare or got + failed >= total)
      and not (got - :got >= need or failed - :failed > spare or got + failed - :got - :failed >= total);

-- name: wake
-- Something has come: a run that waits, is not held and has its code becomes ready, any other learns of it by `wakes`.
update task
   set wakes = wakes + 1,
       state = case when m.goes_on then 'ready' else state end,
       due_at = case when m.goes_on then null else due_at end,
       since_at = case when m.goes_on then :now else since_at end
  from (select t.state = 'waiting'
               and t.hold = 0
               and not exists (select 1 from wait w where w.run_id = t.run_id and w.kind = 'code') as goes_on
          from task t
         where t.run_id = :run_id) m
 where run_id = :run_id;

-- name: supersede_all
-- What earlier generations recorded counts no more.
update step
   set superseded_by = ?
 where run_id = ?
   and superseded_by is null;

-- name: supersede
-- What was recorded of some calls counts no more. All at once: a look through the records for each call would take the
-- square of their number.
update step
   set superseded_by = ?
 where run_id = ?
   and superseded_by is null
   and (path, name, count) in (select value ->> 0, value ->> 1, value ->> 2 from json_each(?));

-- name: open_generation
-- A later life of a run.
insert into generation (run_id, generation, tenant, version, code, definition, input, cause, actor, reason, opened_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: begin_generation
-- The run joins the line in its next life, at its old place, or waits for its next try; its time counts anew.
update task
   set state = ?, worker_id = null, token = token + 1, generation = ?, code = ?, claims = 0, crashes = 0, strikes = 0,
       tries = case when ? then tries + 1 else 0 end, due_at = ?, since_at = ?,
       deadline_at = ? + (select r.timeout_ms from run r where r.run_id = task.run_id)
 where run_id = ?;
