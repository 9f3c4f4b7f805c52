-- name: locked_review
-- A review as a command sees it.
select run_id, wait_id, generation, step, state, digest, verdicts, assignee, role, quorum, quorum_reject, expires_ms,
       on_expiry, escalate_to, escalate_role, escalations, due_at, subject
  from stepfast.review
 where run_id = :run_id
   and wait_id = :wait_id;

-- name: given_verdicts
-- What people have answered so far; comments and escalations are no answers.
select actor, verdict, value, note, at
  from stepfast.review_answer
 where run_id = :run_id
   and wait_id = :wait_id
   and verdict <> 'escalate'
 order by n;

-- name: issued_token
-- A token by its hash.
select hash, actor, generation, expires_at, used_at
  from stepfast.review_token
 where run_id = :run_id
   and wait_id = :wait_id
   and hash = :hash;

-- name: end_review
-- A review has its end.
update stepfast.review
   set state = :state, verdict = :verdict, actor = :actor, ended_at = :now
 where run_id = :run_id
   and wait_id = :wait_id;

-- name: pass_review
-- Somebody else is asked.
update stepfast.review
   set assignee = :assignee, role = :role
 where run_id = :run_id
   and wait_id = :wait_id;

-- name: escalate_review
-- Somebody above is asked, and the time to answer begins anew.
update stepfast.review
   set due_at = :due_at, escalations = :escalations
 where run_id = :run_id
   and wait_id = :wait_id;

-- name: move_wait
-- The run waits until the new moment.
update stepfast.wait
   set due_at = :due_at
 where run_id = :run_id
   and wait_id = :wait_id;

-- name: move_task
-- A run that waits is woken by the first of its waits that falls due, one that waits for code by none of them.
update stepfast.task
   set due_at = (select case when count(*) filter (where w.kind = 'code') = 0 then min(w.due_at) end
                   from stepfast.wait w
                  where w.run_id = :run_id)
 where run_id = :run_id
   and state = 'waiting';

-- name: add_answer
-- What somebody said of a review.
insert into stepfast.review_answer (run_id, wait_id, n, tenant, verdict, value, note, actor, at)
select r.run_id, r.wait_id,
       1 + (select count(*) from stepfast.review_answer a where a.run_id = r.run_id and a.wait_id = r.wait_id),
       r.tenant, cast(:verdict as text), cast(:value as text), cast(:note as text), cast(:actor as text),
       cast(:now as bigint)
  from stepfast.review r
 where r.run_id = :run_id
   and r.wait_id = :wait_id;

-- name: add_token
-- One more person may answer by a token.
insert into stepfast.review_token (run_id, wait_id, hash, tenant, generation, actor, issued_at, expires_at)
select r.run_id, r.wait_id, cast(:hash as text), r.tenant, r.generation, cast(:actor as text), cast(:now as bigint),
       cast(:expires_at as bigint)
  from stepfast.review r
 where r.run_id = :run_id
   and r.wait_id = :wait_id;

-- name: use_token
-- A token works once.
update stepfast.review_token
   set used_at = :now
 where run_id = :run_id
   and wait_id = :wait_id
   and hash = :hash;

-- name: put_message
-- Something for the holder of a run, or for its code, numbered by `wakes`.
insert into stepfast.inbox (run_id, n, tenant, kind, name, value, actor, at, told)
select t.run_id, t.wakes + 1, t.tenant, cast(:kind as text), cast(:name as text), cast(:value as text),
       cast(:actor as text), cast(:at as bigint), cast(:told as boolean)
  from stepfast.task t
 where t.run_id = :run_id;

-- name: raise_wakes
-- Whoever holds the run sees that something came; with `wake`, a run that waits for it, and not for code, joins the line.
update stepfast.task
   set wakes = wakes + 1,
       state = case when m.goes_on then 'ready' else state end,
       due_at = case when m.goes_on then null else due_at end,
       since_at = case when m.goes_on then :now else since_at end
  from (select :wake
               and t.state = 'waiting'
               and not t.hold
               and not exists (select 1 from stepfast.wait w where w.run_id = t.run_id and w.kind = 'code') as goes_on
          from stepfast.task t
         where t.run_id = :run_id) m
 where run_id = :run_id;

-- name: locked_call
-- A step as whoever calls it back sees it: how it stands, until when, and whether its end has come already.
select s.state, s.due_at,
       exists (select 1 from stepfast.inbox m where m.run_id = :run_id and m.kind = :kind and m.name = :message)
  from (select 1 as one) o
  left join (
       select c.state, c.due_at
         from stepfast.step c
        where c.run_id = :run_id
          and c.path = :path
          and c.name = :name
          and c.count = :count
          and c.superseded_by is null
        order by c.seq desc
        limit 1
  ) s on o.one = 1;
