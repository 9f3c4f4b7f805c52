-- name: list_reviews
-- One page of reviews, those of the newest runs first; every condition is optional.
select run_id, wait_id, tenant, generation, workflow, step, kind, title, digest, verdicts, assignee, role, quorum,
       quorum_reject, on_expiry, escalate_to, escalate_role, escalations, subject, opened_at, due_at, state, verdict,
       actor, ended_at
  from stepfast.review
 where (run_id, wait_id) < (:before_run, :before_wait)
   and (cast(:tenant as text) is null or tenant = :tenant)
   and (cast(:workflow as text) is null or workflow = :workflow)
   and (cast(:open as text) is null or state = 'open')
   and (cast(:state as text) is null or state = :state)
   and (cast(:role as text) is null or role = :role)
   and (cast(:assignee as text) is null or assignee = :assignee)
   and (cast(:run_id as text) is null or run_id = :run_id)
   and (cast(:opened_after as bigint) is null or opened_at > :opened_after)
 order by run_id desc, wait_id desc
 limit :limit;

-- name: get_review
-- One review, for its tenant or, without one, for anybody.
select run_id, wait_id, tenant, generation, workflow, step, kind, title, digest, verdicts, assignee, role, quorum,
       quorum_reject, on_expiry, escalate_to, escalate_role, escalations, subject, opened_at, due_at, state, verdict,
       actor, ended_at, shown, value_schema
  from stepfast.review
 where run_id = :run_id
   and wait_id = :wait_id
   and (cast(:tenant as text) is null or tenant = :tenant);

-- name: list_said
-- What people have said of a review, in order.
select verdict, value, note, actor, at
  from stepfast.review_answer
 where run_id = :run_id
   and wait_id = :wait_id
 order by n;

-- name: list_tokens
-- The tokens of a review, in the order in which they were issued.
select hash, actor, generation, issued_at, expires_at, used_at
  from stepfast.review_token
 where run_id = :run_id
   and wait_id = :wait_id
 order by issued_at, hash;

-- name: review_figures
-- What became of reviews that were opened in a range of time, and how long those that people decided had waited.
with chosen as (
    select state, escalations, opened_at, ended_at
      from stepfast.review
     where opened_at >= 0
       and (cast(:tenant as text) is null or tenant = :tenant)
       and (cast(:workflow as text) is null or workflow = :workflow)
       and (cast(:role as text) is null or role = :role)
       and (cast(:after as bigint) is null or opened_at > :after)
       and (cast(:before as bigint) is null or opened_at < :before)
), waited as (
    select ended_at - opened_at as ms,
           row_number() over (order by ended_at - opened_at) as place,
           count(*) over () as total
      from chosen
     where state = 'decided'
)
select count(*),
       count(case when state = 'decided' then 1 end),
       count(case when state = 'expired' then 1 end),
       count(case when state = 'withdrawn' then 1 end),
       count(case when state = 'open' then 1 end),
       count(case when escalations > 0 then 1 end),
       (select min(w.ms) from waited w where w.place * 100 >= w.total * 50),
       (select min(w.ms) from waited w where w.place * 100 >= w.total * 95),
       count(case
             when state = 'open' and opened_at <= stepfast.now_ms() - cast(:in_time_ms as bigint) then 1
             when state in ('decided', 'expired') then 1
             end),
       count(case when state = 'decided' and ended_at - opened_at <= cast(:in_time_ms as bigint) then 1 end)
  from chosen;

-- name: review_refusals
-- How often tokens of the same reviews were refused, by the code of the error; a token that names a run and none of its
-- reviews counts for the run.
with code (code) as (
    values ('E-REV-001'), ('E-REV-002'), ('E-REV-003'), ('E-REV-004'), ('E-REV-005'), ('E-VAL-001'), ('E-AUTH-002')
)
select c.code, count(distinct e.position)
  from stepfast.review r
 cross join stepfast.event e
 cross join code c
 where e.run_id = r.run_id
   and e.type = 'resume_submitted'
   and (e.data like '{"review_id": "' || cast(r.run_id as text) || '.' || r.wait_id || '"%'
        or e.data not like '{"review_id"%')
   and e.data like '%"outcome": "' || c.code || '"%'
   and (cast(:tenant as text) is null or r.tenant = :tenant)
   and (cast(:workflow as text) is null or r.workflow = :workflow)
   and (cast(:role as text) is null or r.role = :role)
   and (cast(:after as bigint) is null or r.opened_at > :after)
   and (cast(:before as bigint) is null or r.opened_at < :before)
 group by c.code;

-- name: lost_refusals
-- How often something was refused that is no token of any run.
select count(*)
  from stepfast.event e
 where e.run_id = :no_run
   and e.type = 'resume_submitted'
   and (cast(:tenant as text) is null or e.tenant = :tenant)
   and (cast(:after as bigint) is null or e.at > :after)
   and (cast(:before as bigint) is null or e.at < :before);

-- name: list_ends
-- Of one page of reviews, how often each has an end in the history of its run, what its holder is yet to tell included.
select r.run_id, r.wait_id, r.tenant, r.state,
       (select count(*)
          from stepfast.event e
         where e.run_id = r.run_id
           and e.generation = r.generation
           and e.type = 'review_requested'
           and e.step = r.step),
       (select count(*)
          from stepfast.event e
         where e.run_id = r.run_id
           and e.type in ('review_decided', 'review_expired')
           and e.data like '{"review_id": "' || cast(r.run_id as text) || '.' || r.wait_id || '"%')
       + (select count(*)
            from stepfast.inbox i
           where i.run_id = r.run_id
             and i.kind in ('review_decided', 'review_expired')
             and i.value like '{"review_id": "' || cast(r.run_id as text) || '.' || r.wait_id || '"%'),
       (select count(*)
          from stepfast.event e
         where e.run_id = r.run_id
           and e.generation = r.generation
           and (e.type in ('completed', 'partial', 'failed', 'cancelled', 'continued', 'rolled_back')
                or e.type = 'step_skipped' and e.data like '{"by_hand"%'
                or e.type = 'retry_scheduled' and e.step is null
                or e.type = 'step_cancelled'
                   and e.data like '{"review_id": "' || cast(r.run_id as text) || '.' || r.wait_id || '"%')),
       (select count(*) from stepfast.wait w where w.run_id = r.run_id and w.wait_id = r.wait_id)
  from stepfast.review r
 where (r.run_id, r.wait_id) < (:before_run, :before_wait)
   and (cast(:tenant as text) is null or r.tenant = :tenant)
 order by r.run_id desc, r.wait_id desc
 limit :limit;
