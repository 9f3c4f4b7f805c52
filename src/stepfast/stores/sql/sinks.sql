-- name: list_held
-- Runs whose events wait, those that are due first.
select run_id, seq, tries, due_at, error
  from stepfast.sink_held
 where sink = :sink
 order by due_at, run_id
 limit :limit;

-- name: events_between
-- The events of a run from a number on, up to a position.
select e.position, e.seq, e.run_id, e.tenant, e.generation, e.type, e.at, e.step, e.attempt, e.token, e.actor, e.data,
       e.causation_id, r.correlation_id
  from stepfast.event e
  left join stepfast.run r on r.run_id = e.run_id
 where e.run_id = :run_id
   and e.seq >= :first_seq
   and e.position <= :upto
 order by e.seq
 limit :limit;

-- name: list_sinks
-- Every sink, with what it has not had yet; of a lease that is over nobody speaks.
select s.name, s.cursor,
       (select count(*) from stepfast.event e where e.position > s.cursor),
       (select count(*) from stepfast.sink_held h where h.sink = s.name),
       (select count(*) from stepfast.sink_letter l where l.sink = s.name and l.resolved_at is null),
       s.tries, s.due_at, s.error, case when s.leased_until > :now then s.publisher end
  from stepfast.sink s
 order by s.name;

-- name: list_sink_letters
-- Dead letters of a sink behind a position.
select l.position, l.run_id, l.seq, l.tenant, l.type, l.tries, l.error, l.recorded_at, l.replay_at, l.resolved_at
  from stepfast.sink_letter l
 where l.sink = :sink
   and l.position > :after
   and (cast(:open as integer) is null or l.resolved_at is null)
 order by l.position
 limit :limit;

-- name: due_letters
-- Dead letters that somebody wants to be delivered once more, with their events.
select l.position, l.run_id, l.seq, l.tenant, l.type, l.tries, l.error,
       e.position, e.seq, e.run_id, e.tenant, e.generation, e.type, e.at, e.step, e.attempt, e.token, e.actor, e.data,
       e.causation_id, r.correlation_id
  from stepfast.sink_letter l
  join stepfast.event e on e.run_id = l.run_id and e.seq = l.seq
  left join stepfast.run r on r.run_id = e.run_id
 where l.sink = :sink
   and l.resolved_at is null
   and l.replay_at is not null
 order by l.position
 limit :limit;
