-- name: list_policies
-- Every retention policy.
select tenant, workflow, keep_ms, actor, reason, changed_at
  from stepfast.retention
 order by tenant, workflow;

-- name: ended_tenants
-- The tenants that have ended runs; the index is asked once for each of them.
with recursive found (tenant) as (
    select min(o.tenant)
      from stepfast.outcome o
    union all
    select (select min(o.tenant) from stepfast.outcome o where o.tenant > f.tenant)
      from found f
     where f.tenant is not null
)
select tenant
  from found
 where tenant is not null;

-- name: ended_reach
-- By when so many ends have come behind a moment; those of one moment are never torn apart.
select max(page.ended_at)
  from (
      select o.ended_at
        from stepfast.outcome o
       where o.tenant = :tenant
         and o.state = :state
         and o.ended_at > :after
         and o.ended_at <= :upto
       order by o.ended_at
       limit :limit
  ) page;

-- name: ended_roots
-- Runs whose newest end is between two moments that are nobody's children, or of nobody who is still there.
select k.run_id, k.tenant, k.workflow, k.parent_wait, k.ended_at, k.last_seq, k.has_children, k.is_sealed, k.held
  from stepfast.outcome o
  join stepfast.run_keeping k on k.run_id = o.run_id
 where o.tenant = :tenant
   and o.state = :state
   and o.ended_at > :after
   and o.ended_at <= :upto
   and not exists (select 1 from stepfast.outcome n where n.run_id = o.run_id and n.generation > o.generation)
   and not exists (select 1 from stepfast.run p where p.run_id = k.parent_id)
 order by o.ended_at, k.run_id;

-- name: kept_children
-- One page of a run's children.
select k.run_id, k.tenant, k.workflow, k.parent_wait, k.ended_at, k.last_seq, k.has_children, k.is_sealed, k.held
  from stepfast.run_keeping k
 where k.parent_id = :parent_id
   and (k.parent_wait, k.run_id) > (:after_wait, :after_run)
 order by k.parent_wait, k.run_id
 limit :limit;

-- name: pruned_of_seal
-- The runs of a seal that are said to be pruned.
select p.run_id, p.last_seq, p.batch_id
  from stepfast.leaf l
  join stepfast.pruned p on p.run_id = l.run_id
 where l.number = :number
 order by p.batch_id;

-- name: pruned_runs
-- Runs that are said to be pruned, and whether something of them is left.
select p.run_id, exists (select 1 from stepfast.event e where e.run_id = p.run_id)
  from stepfast.pruned p
 where p.run_id > :after
 order by p.run_id
 limit :limit;

-- name: pruned_at
-- When a run was pruned, if it was this tenant's.
select pruned_at
  from stepfast.pruned
 where run_id = :run_id
   and (cast(:tenant as text) is null or tenant = :tenant);

-- name: unswept
-- Runs that were pruned and may have blobs outside of the database.
select tenant, run_id
  from stepfast.pruned_rest
 where run_id > :after
 order by run_id
 limit :limit;
