-- name: insert_event
-- One fact; its position is the row's own number.
insert into event (run_id, seq, tenant, generation, type, at, step, attempt, token, actor, data)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: last_event
-- The number of a run's newest event.
select coalesce(max(seq), 0)
  from event
 where run_id = ?;
