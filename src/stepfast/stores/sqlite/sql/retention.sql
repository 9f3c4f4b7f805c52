-- name: told_before
-- What was told under an id.
select data
  from event
 where run_id = ?
   and seq = 1;

-- name: set_policy
-- A policy, in the place of the one that stands.
insert into retention (tenant, workflow, keep_ms, actor, reason, changed_at)
values (:tenant, :workflow, :keep_ms, :actor, :reason, :now)
    on conflict (tenant, workflow) do update
   set keep_ms = excluded.keep_ms,
       actor = excluded.actor,
       reason = excluded.reason,
       changed_at = excluded.changed_at;

-- name: remove_policy
-- No policy any more.
delete from retention
 where tenant = :tenant
   and workflow = :workflow;

-- name: policies
-- Every policy.
select tenant, workflow, keep_ms, actor, reason, changed_at
  from retention;

-- name: get_kept
-- What speaks for and against letting a run go.
select k.run_id, k.tenant, k.workflow, k.parent_wait, k.ended_at, k.last_seq, k.has_children, k.is_sealed, k.held
  from run_keeping k
 where k.run_id = ?;

-- name: get_root
-- The run that began the family of one.
with recursive up (run_id, parent_id, height) as (
    select r.run_id, r.parent_id, 0
      from run r
     where r.run_id = ?
    union all
    select p.run_id, p.parent_id, u.height + 1
      from up u
      join run p on p.run_id = u.parent_id
)
select run_id
  from up
 order by height desc
 limit 1;

-- name: children_left
-- Children of a run that would not go with it.
select 1
  from run c
 where c.parent_id = :run_id
   and c.run_id not in (select value from json_each(:runs))
 limit 1;

-- name: is_sealing
-- Whether there is any seal.
select exists (select 1 from seal);

-- name: begin_pruning
-- From here on this transaction may delete events.
insert into pruning (xact)
values (1);

-- name: delete_runs
-- Runs, with all that belongs to them.
delete from run
 where run_id in (select value from json_each(?));

-- name: end_pruning
-- Events cannot be deleted any more.
delete from pruning;

-- name: insert_pruned
-- What is left of a run.
insert into pruned (run_id, tenant, last_seq, batch_id, pruned_at)
values (?, ?, ?, ?, ?);

-- name: insert_rest
-- A run whose blobs are to be removed.
insert into pruned_rest (run_id, tenant)
values (?, ?);

-- name: swept
-- A run that has no blobs any more.
delete from pruned_rest
 where run_id = ?;
