-- name: list_annotations
-- One page of annotations, newest first; every condition is optional.
select a.position, a.seq, a.run_id, a.tenant, a.generation, a.at, a.step, a.attempt, a.actor, a.name, a.value, a.scope,
       a.reason
  from stepfast.annotation a
 where a.position < :before
   and (cast(:tenant as text) is null or a.tenant = :tenant)
   and (cast(:run_id as text) is null or a.run_id = :run_id)
   and (cast(:name as text) is null or a.name = :name)
   and (cast(:digest as text) is null or a.digest = :digest)
   and (cast(:step as text) is null or a.step = :step)
   and (cast(:step_name as text) is null or replace('/' || a.step, '/' || :step_name || '#', '') <> '/' || a.step)
   and (cast(:actor as text) is null or a.actor = :actor)
 order by a.position desc
 limit :limit;
