-- Delivering: what comes for a run from outside, and what its holder reads of it.

-- The key that it was sent with, which its event names as its cause, whoever writes that.
alter table stepfast.inbox add column cause text collate "C";

-- Stores a message for a run whatever its state, and makes a run that waits for just that ready, unless it waits for code,
-- too. The answer is the state before, null for a run that this tenant does not have; to a key that was used before, the
-- state of that time.
create function stepfast.deliver(
    d_run uuid,
    d_tenant text,
    d_kind text,
    d_name text,
    d_value text,
    d_actor text,
    d_key text,
    d_digest text,
    d_reason text,
    out state text,
    out queue text,
    out worker_id text
)
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
set jit = off
set lock_timeout = '5s'
as $$
declare
    moment bigint;
    is_fresh boolean := true;
    awaited boolean;
    mine record;
    seen record;
    earlier record;
begin
    select t.tenant, t.state, t.hold, t.wakes, t.token, t.generation, t.queue, t.worker_id
      into mine
      from stepfast.task t
     where t.run_id = d_run and (d_tenant is null or t.tenant = d_tenant)
       for no key update;
    select s.tenant, s.state, s.ended_at
      into seen
      from stepfast.run_state s
     where s.run_id = d_run and (d_tenant is null or s.tenant = d_tenant);
    -- Opened again between the two looks: it would be told that its message is stored.
    if mine.tenant is null and seen.tenant is not null and seen.ended_at is null then
        raise exception using errcode = 'serialization_failure', message = 'the run was opened again meanwhile';
    end if;
    moment := stepfast.now_ms();
    state := seen.state;
    queue := mine.queue;
    worker_id := mine.worker_id::text;
    if d_key is not null and mine.tenant is not null then
        insert into stepfast.idempotency (tenant, command, key, digest, run_id, answer, at)
        values (mine.tenant, d_kind, d_key, d_digest, d_run, seen.state, moment)
            on conflict do nothing;
        is_fresh := found;
    end if;
    -- What was taken once is answered as it was then, also when the run has ended since.
    if d_key is not null and (mine.tenant is null or not is_fresh) then
        select k.digest, k.answer
          into earlier
          from stepfast.idempotency k
         where k.tenant = seen.tenant and k.command = d_kind and k.key = d_key;
        if earlier.digest <> d_digest then
            raise exception using
                errcode = 'SF001',
                message = format(
                    'Key %s of tenant %s was used before for another %s. Use a new key, or send what was sent first.',
                    to_json(d_key), to_json(seen.tenant), d_kind);
        end if;
        state := coalesce(earlier.answer, seen.state);
    end if;
    if mine.tenant is null or not is_fresh then
        return;
    end if;
    insert into stepfast.inbox (run_id, n, tenant, kind, name, value, actor, at, told, reason, cause)
    values (d_run, mine.wakes + 1, mine.tenant, d_kind, d_name, d_value, d_actor, moment, mine.state <> 'leased',
            d_reason, d_key);
    if mine.state <> 'leased' then
        insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, actor, data)
        select d_run, 1 + coalesce(max(e.seq), 0), mine.tenant, mine.generation, 'signalled', moment, mine.token, d_actor,
               format('{"name": %s, "n": %s%s%s}', to_json(d_name), mine.wakes + 1, ', "reason": ' || to_json(d_reason),
                      ', "causation_id": ' || to_json(d_key))
          from stepfast.event e
         where e.run_id = d_run;
    end if;
    awaited := mine.state = 'waiting' and not mine.hold and exists (
        select from stepfast.wait w where w.run_id = d_run and w.kind = d_kind and w.name = d_name
    ) and not exists (
        select from stepfast.wait w where w.run_id = d_run and w.kind = 'code'
    );
    update stepfast.task t
       set wakes = t.wakes + 1,
           state = case when awaited then 'ready' else t.state end,
           due_at = case when awaited then null else t.due_at end,
           since_at = case when awaited then moment else t.since_at end
     where t.run_id = d_run;
end
$$;

-- What runs wait for.
create function stepfast.waits(h_runs uuid[])
returns table (
    run_id text, wait_id integer, kind text, name text, due_at bigint, need integer, spare integer, total integer,
    got integer,
    failed integer
)
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
begin
    return query
    select w.run_id::text, w.wait_id, w.kind, w.name, w.due_at, w.need, w.spare, w.total, w.got, w.failed
      from stepfast.wait w
     where w.run_id = any (h_runs)
     order by w.run_id, w.wait_id;
end
$$;

-- What has come for runs and was not yet taken.
create function stepfast.messages(h_runs uuid[])
returns table (
    run_id text, n integer, kind text, name text, value text, actor text, at bigint, told boolean, reason text,
    cause text
)
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
begin
    return query
    select m.run_id::text, m.n, m.kind, m.name, m.value, m.actor, m.at, m.told, m.reason, m.cause
      from stepfast.inbox m
     where m.run_id = any (h_runs)
     order by m.run_id, m.n;
end
$$;
