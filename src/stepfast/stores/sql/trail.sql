-- name: list_trail
-- Events behind a position, in order.
select e.position, e.seq, e.run_id, e.tenant, e.generation, e.type, e.at, e.step, e.attempt, e.token, e.actor, e.data,
       e.causation_id, r.correlation_id
  from stepfast.event e
  left join stepfast.run r on r.run_id = e.run_id
 where e.position > :after
   and (cast(:last as bigint) is null or e.position <= :last)
 order by e.position
 limit :limit;

-- name: highest_below
-- The highest position below another at which there is an event.
select max(position) from stepfast.event where position < :before;

-- name: any_since
-- Whether an event between two positions was written at a moment or later: a row, or none.
select 1
  from stepfast.event
 where position > :after
   and position < :before
   and at >= :since
 limit 1;

-- name: find_events
-- Events between two positions, newest first; every other condition is optional. `types` is what `listed` makes of them.
select e.position, e.seq, e.run_id, e.tenant, e.generation, e.type, e.at, e.step, e.attempt, e.token, e.actor, e.data,
       e.causation_id, r.correlation_id
  from stepfast.event e
  left join stepfast.run r on r.run_id = e.run_id
 where e.position > :after
   and e.position < :before
   and (cast(:tenant as text) is null or e.tenant = :tenant)
   and (cast(:run_id as text) is null or e.run_id = :run_id)
   and (cast(:types as text) is null or replace(:types, ' |' || replace(e.type, ' ', ' .') || ' |', '') <> :types)
   and (cast(:step as text) is null or e.step = :step)
   and (cast(:step_name as text) is null or replace('/' || e.step, '/' || :step_name || '#', '') <> '/' || e.step)
   and (cast(:actor as text) is null or e.actor = :actor)
   and (cast(:correlation_id as text) is null or coalesce(r.correlation_id, cast(e.run_id as text)) = :correlation_id)
   and (cast(:since as bigint) is null or e.at >= :since)
   and (cast(:until as bigint) is null or e.at < :until)
 order by e.position desc
 limit :limit;

-- name: last_seal
-- The newest seal.
select number, after, upto, events, leaves, root, previous, sealed_at, key, signature
  from stepfast.seal
 order by number desc
 limit 1;

-- name: list_seals
-- Seals with higher numbers, in order.
select number, after, upto, events, leaves, root, previous, sealed_at, key, signature
  from stepfast.seal
 where number > :after
 order by number
 limit :limit;

-- name: list_leaves
-- The leaves of a seal, in the order in which its root was made of them.
select run_id, tenant, first_seq, last_seq, digest
  from stepfast.leaf
 where number = :number
 order by n;

-- name: gaps_of_leaves
-- Leaves that do not follow upon another of their run, with the last number that there is before.
select l.run_id,
       (select max(b.last_seq) from stepfast.leaf b where b.run_id = l.run_id and b.last_seq < l.first_seq),
       l.first_seq - 1
  from stepfast.leaf l
 where l.first_seq > 1
   and not exists (
       select 1
         from stepfast.leaf p
        where p.run_id = l.run_id
          and p.first_seq < l.first_seq
          and p.last_seq = l.first_seq - 1
   )
 limit :limit;

-- name: gaps_of_events
-- Events behind a position whose predecessor is neither there nor sealed, with the last number that there is before.
select e.run_id,
       (
           select max(b.seq)
             from (
                 select o.seq from stepfast.event o where o.run_id = e.run_id and o.seq < e.seq
                 union all
                 select s.last_seq from stepfast.leaf s where s.run_id = e.run_id and s.last_seq < e.seq
             ) b
       ),
       e.seq - 1
  from stepfast.event e
 where e.position > :after
   and e.seq > 1
   and not exists (select 1 from stepfast.event p where p.run_id = e.run_id and p.seq = e.seq - 1)
   and not exists (select 1 from stepfast.leaf l where l.run_id = e.run_id and l.last_seq = e.seq - 1)
 limit :limit;

-- name: gaps_of_starts
-- Runs without their first event.
select r.run_id, 0, 1
  from stepfast.run r
 where not exists (select 1 from stepfast.event e where e.run_id = r.run_id and e.seq = 1)
   and not exists (select 1 from stepfast.leaf l where l.run_id = r.run_id and l.first_seq = 1)
 limit :limit;

-- name: gaps_of_ends
-- Ends of runs without the event that tells of them.
select o.run_id, o.seq - 1, o.seq
  from stepfast.outcome o
 where not exists (select 1 from stepfast.event e where e.run_id = o.run_id and e.seq = o.seq)
   and not exists (
       select 1
         from stepfast.leaf l
        where l.run_id = o.run_id
          and l.first_seq <= o.seq
          and l.last_seq >= o.seq
   )
 limit :limit;

-- name: count_behind
-- How many events stand behind a position.
select count(*)
  from stepfast.event
 where position > :after;
