-- name: make_sink
-- A sink that is new gets what is written from now on, or all there is. Its token is none that whoever had one of this
-- name that was removed may still go by.
insert into sink (name, cursor, token, leased_until, tries, due_at)
select :name, case when :from_start then 0 else coalesce((select max(position) from event), 0) end,
       abs(random()) % 1000000000, 0, 0, 0
 where true
    on conflict do nothing;

-- name: take_sink
-- Leases a sink, unless another publisher has it; the token rises when it changes hands.
update sink
   set token = token + (publisher is not :publisher or leased_until <= :now),
       publisher = :publisher,
       leased_until = :now + :lease_ms
 where name = :name
   and (publisher = :publisher or leased_until <= :now)
returning token, cursor, tries, due_at,
          exists (select 1 from sink_letter l where l.sink = :name and l.replay_at is not null);

-- name: advance_sink
-- What a publisher has done, if it still has the sink.
update sink
   set cursor = :cursor, tries = :tries, due_at = :due_at, error = :error, leased_until = :until
 where name = :name
   and token = :token;

-- name: release_sink
-- Another publisher may take it at once.
update sink
   set leased_until = 0, publisher = null
 where name = :name
   and token = :token;

-- name: hold_back
-- A run waits from this event on.
insert into sink_held (sink, run_id, seq, tries, due_at, error)
values (?, ?, ?, ?, ?, ?)
    on conflict (sink, run_id) do update
   set seq = excluded.seq, tries = excluded.tries, due_at = excluded.due_at, error = excluded.error;

-- name: free
-- A run waits no more.
delete from sink_held
 where sink = ?
   and run_id = ?;

-- name: put_letter
-- An event that the sink did not take, or not once more.
insert into sink_letter (sink, position, run_id, seq, tenant, type, tries, error, recorded_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict (sink, position) do update
   set tries = excluded.tries, error = excluded.error, replay_at = null;

-- name: resolve_letter
-- It was delivered after all.
update sink_letter
   set resolved_at = ?, replay_at = null
 where sink = ?
   and position = ?;

-- name: open_letters
-- The first dead letters of a sink that nothing was done about.
select position
  from sink_letter
 where sink = :sink
   and resolved_at is null
 order by position
 limit :limit;

-- name: replay_letter
-- It is to be delivered once more.
update sink_letter
   set replay_at = ?
 where sink = ?
   and position = ?
   and resolved_at is null;

-- name: get_sink
-- Who publishes to a sink now, how far it has got, and how many dead letters it has.
select case when s.leased_until > :now then s.publisher end,
       s.cursor,
       (select count(*) from sink_letter l where l.sink = s.name and l.resolved_at is null)
  from sink s
 where s.name = :name;

-- name: drop_held
-- Nobody waits for a sink that is gone.
delete from sink_held
 where sink = ?;

-- name: drop_letters
-- Nor is anything left that it did not take.
delete from sink_letter
 where sink = ?;

-- name: drop_sink
-- A sink that nobody publishes to.
delete from sink
 where name = ?;
