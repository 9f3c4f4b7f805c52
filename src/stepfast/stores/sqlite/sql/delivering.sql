-- name: task_of
-- The task that something is brought to.
select state, hold, wakes, token, generation
  from task
 where run_id = :run_id;

-- name: put
-- What came waits until the run's code takes it.
insert into inbox (run_id, n, tenant, kind, name, value, actor, at, told, reason, cause)
values (:run_id, :n, :tenant, :kind, :name, :value, :actor, :now, :told, :reason, :key);

-- name: is_awaited
-- Whether the run waits for just that, and has code that could take it.
select exists (select 1 from wait where run_id = :run_id and kind = :kind and name = :name)
   and not exists (select 1 from wait where run_id = :run_id and kind = 'code');

-- name: raise_wakes
-- Whoever holds the run sees that something came; a run that waits for it joins the line.
update task
   set wakes = wakes + 1,
       state = case when :wake then 'ready' else state end,
       due_at = case when :wake then null else due_at end,
       since_at = case when :wake then :now else since_at end
 where run_id = :run_id;

-- name: key_used
-- What a key was used for before, and what was answered.
select digest, answer
  from idempotency
 where tenant = :tenant
   and command = :command
   and key = :key;

-- name: use_key
-- A key is used once.
insert into idempotency (tenant, command, key, digest, run_id, answer, at)
values (:tenant, :command, :key, :digest, :run_id, :answer, :now);
