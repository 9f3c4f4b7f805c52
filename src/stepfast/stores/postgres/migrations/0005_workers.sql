-- Workers: announcing, heartbeats, leaving, and what becomes of the runs of those that died.

-- Runs whose records did not fit the code that they met, and whose code is among these, become ready.
create function stepfast.wake_for_code(k_codes text[], moment bigint) returns void
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
set jit = off
as $$
declare
    waiting uuid[];
begin
    waiting := array(
        select t.run_id
          from stepfast.wait w
          join stepfast.task t on t.run_id = w.run_id
         where w.kind = 'code' and t.code = any (k_codes)
    );
    if cardinality(waiting) = 0 then
        return;
    end if;
    begin
        perform from stepfast.task t where t.run_id = any (waiting) order by t.run_id for no key update;
    exception when lock_not_available then
        -- Somebody keeps one of them locked, as in a transaction that was left open. It waits on, and nobody for it: no
        -- worker would come, leave or be buried.
        waiting := array(
            select t.run_id
              from stepfast.task t
             where t.run_id = any (waiting)
             order by t.run_id
               for no key update skip locked
        );
    end;
    waiting := array(
        select t.run_id
          from stepfast.task t
         where t.run_id = any (waiting)
           and t.state = 'waiting'
           and t.code = any (k_codes)
           and exists (select from stepfast.wait w where w.run_id = t.run_id and w.kind = 'code')
           and not stepfast.is_spent(t, (select max(e.seq) from stepfast.event e where e.run_id = t.run_id))
    );
    insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, data)
    select t.run_id, 1 + (select max(e.seq) from stepfast.event e where e.run_id = t.run_id), t.tenant, t.generation,
           'exception_resolved', moment, t.token,
           format('{"cause": "blocked:%s", "kind": "blocked", "resolution": "taken up"}', t.generation)
      from stepfast.task t
     where t.run_id = any (waiting)
     order by t.run_id;
    delete from stepfast.wait w where w.run_id = any (waiting) and w.kind = 'code';
    update stepfast.task t set state = 'ready', due_at = null, since_at = moment where t.run_id = any (waiting);
end
$$;

-- Some workers are gone. Runs that wait for code may have met theirs, and fit that of those who stay: in a deploy the old
-- ones go when the new ones have announced themselves.
create function stepfast.wake_for_those_who_stay(gone uuid[], moment bigint) returns void
language sql volatile
as $$
    select stepfast.wake_for_code(
        array(
            select c
              from stepfast.worker w, json_array_elements_text(w.codes::json) c
             where w.worker_id = any (gone)
            intersect
            select c
              from stepfast.worker w, json_array_elements_text(w.codes::json) c
             where w.dead_at is null
        ),
        moment
    )
$$;

-- Announces a worker, or hears again what it is; one that was buried stays dead, as its runs may not be back yet. Runs
-- whose records did not fit the code that they met become ready: the worker that comes now may have what they need.
create function stepfast.enrol(
    k_worker uuid, k_label text, k_host text, k_pid integer, k_queues text, k_codes text, k_lacks text,
    k_lease bigint,
    k_crew text,
    out moment bigint,
    out turn_queues text[],
    out turn_tenants text[]
)
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
set jit = off
set lock_timeout = '5s'
as $$
begin
    moment := stepfast.now_ms();
    insert into stepfast.worker (worker_id, label, host, pid, queues, codes, lacks, crew, lease_ms, started_at, seen_at)
    values (k_worker, k_label, k_host, k_pid, k_queues, k_codes, k_lacks, k_crew, k_lease, moment, moment)
        on conflict (worker_id) do update
       set label = excluded.label, host = excluded.host, pid = excluded.pid, queues = excluded.queues,
           codes = excluded.codes, lacks = excluded.lacks, crew = excluded.crew, lease_ms = excluded.lease_ms,
           seen_at = excluded.seen_at
     where worker.dead_at is null;
    -- Whoever comes clears up behind those who left more than a day ago.
    delete from stepfast.worker w
     where w.worker_id in (
               select d.worker_id
                 from stepfast.worker d
                where d.dead_at < moment - 86400000
                order by d.dead_at
                limit 1000
                  for update skip locked
           );
    -- And behind crews that nobody was of for a month: each definition that is registered makes another one.
    delete from stepfast.turn t
     where (t.queue, t.crew) in (
               select o.queue, o.crew
                 from stepfast.turn o
                where o.queue in (select q from json_array_elements_text(k_queues::json) q)
                  and o.left_at < moment - 2592000000
                  for update skip locked
           );
    perform stepfast.wake_for_code(array(select json_array_elements_text(k_codes::json)), moment);
    -- Who was served last: by the crew, or where nobody of it was here yet, by whoever left last.
    select coalesce(array_agg(l.queue), '{}'), coalesce(array_agg(l.tenant), '{}')
      into turn_queues, turn_tenants
      from (
           select q.queue,
                  coalesce(
                      (
                          select s.tenant
                            from (
                                 select t.tenant, t.left_at as at
                                   from stepfast.turn t
                                  where t.queue = q.queue and t.crew = k_crew
                                 union all
                                 -- One that was killed leaves no word but what it held, until it is buried.
                                 select t.tenant, t.since_at
                                   from stepfast.task t
                                   join stepfast.worker w on w.worker_id = t.worker_id
                                  where t.state = 'leased' and t.queue = q.queue and w.crew = k_crew
                            ) s
                           order by s.at desc, s.tenant desc
                           limit 1
                      ),
                      (
                          select t.tenant
                            from stepfast.turn t
                           where t.queue = q.queue
                           order by t.left_at desc, t.crew desc
                           limit 1
                      )
                  ) as tenant
             from json_array_elements_text(k_queues::json) as q (queue)
           ) l
     where l.tenant is not null;
end
$$;

-- A heartbeat, answered with what the worker holds by our account.
create function stepfast.beat(
    k_worker uuid,
    out moment bigint,
    out alive boolean,
    out run_ids text[],
    out tokens integer[],
    out wakes integer[],
    out holds boolean[]
)
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set jit = off
set lock_timeout = '5s'
as $$
begin
    moment := stepfast.now_ms();
    update stepfast.worker w set seen_at = moment where w.worker_id = k_worker and w.dead_at is null;
    alive := found;
    select coalesce(array_agg(t.run_id::text order by t.run_id), '{}'),
           coalesce(array_agg(t.token order by t.run_id), '{}'),
           coalesce(array_agg(t.wakes order by t.run_id), '{}'),
           coalesce(array_agg(t.hold order by t.run_id), '{}')
      into run_ids, tokens, wakes, holds
      from stepfast.task t
     where t.worker_id = k_worker and t.state = 'leased';
end
$$;

-- The ids of a list that are not in another, in their order.
create function stepfast.without(k_runs uuid[], k_others uuid[]) returns uuid[]
language sql immutable
as $$
    select array(select u.run_id from unnest(k_runs) with ordinality u(run_id, n) where u.run_id <> all (k_others) order by u.n)
$$;

-- Gives runs that a worker holds back to the line, all of them or those of a list; no crash is counted.
create function stepfast.give_back(k_worker uuid, k_runs uuid[], k_reason text) returns text[]
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set jit = off
set lock_timeout = '5s'
as $$
declare
    moment bigint := stepfast.now_ms();
    returned uuid[];
begin
    returned := array(
        select t.run_id
          from stepfast.task t
         where t.worker_id = k_worker and t.state = 'leased' and (k_runs is null or t.run_id = any (k_runs))
         order by t.run_id
           for no key update
    );
    returned := stepfast.without(returned, stepfast.set_spent_aside(returned, 'leased', moment));
    update stepfast.task t
       set state = 'ready', worker_id = null, token = t.token + 1, since_at = moment
     where t.run_id = any (returned);
    -- The event carries the raised token: under the old one it could pass for a late write of the worker itself.
    insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, data)
    select t.run_id,
           1 + coalesce((select max(e.seq) from stepfast.event e where e.run_id = t.run_id), 0),
           t.tenant, t.generation, 'handed_back', moment, t.token,
           format('{"reason": %s, "worker": "%s"}', to_json(k_reason), k_worker)
      from stepfast.task t
     where t.run_id = any (returned);
    return returned::text[];
end
$$;

-- A worker leaves: nothing waits for its lease, and the next of its crew knows who was served last in which queue.
create function stepfast.retire(k_worker uuid, k_crew text, k_queues text[], k_tenants text[]) returns text[]
language plpgsql volatile
set lock_timeout = '5s'
as $$
declare
    moment bigint := stepfast.now_ms();
    returned text[];
begin
    -- Claims and births for this worker that are still under way come to their end first. One that is stuck is left to
    -- upkeep: all else goes back now.
    begin
        perform pg_advisory_xact_lock(hashtext('stepfast'), hashtext(k_worker::text));
    exception when lock_not_available then
        null;
    end;
    update stepfast.worker w set dead_at = moment where w.worker_id = k_worker and w.dead_at is null;
    if found then
        perform stepfast.wake_for_those_who_stay(array[k_worker], moment);
    end if;
    returned := stepfast.give_back(k_worker, null, 'its worker left');
    -- At the end and in order, so that those who leave together wait for no more than each other's commit.
    insert into stepfast.turn (queue, crew, tenant, left_at)
    select s.queue, k_crew, s.tenant, moment
      from unnest(k_queues, k_tenants) as s (queue, tenant)
     order by s.queue
        on conflict (queue, crew) do update
       set tenant = excluded.tenant, left_at = excluded.left_at;
    return returned;
end
$$;

-- The workers that hold tasks but are dead or unknown, each locked unless another pass has it: a walk that reads one
-- index entry for each worker.
create function stepfast.dead_holders() returns uuid[]
language plpgsql volatile
as $$
declare
    holders uuid[];
    gone uuid[];
    unknown uuid[];
begin
    with recursive holder as (
        (
            select t.worker_id
              from stepfast.task t
             where t.state = 'leased'
             order by t.worker_id
             limit 1
        )
        union all
        select n.worker_id
          from holder h
         cross join lateral (
              select t.worker_id
                from stepfast.task t
               where t.state = 'leased' and t.worker_id > h.worker_id
               order by t.worker_id
               limit 1
         ) n
    )
    select array_agg(h.worker_id) into holders from holder h;
    gone := array(
        select w.worker_id
          from stepfast.worker w
         where w.worker_id = any (holders) and w.dead_at is not null
         order by w.worker_id
           for no key update skip locked
    );
    unknown := array(
        select u
          from unnest(holders) u
         where not exists (select from stepfast.worker w where w.worker_id = u)
    );
    return gone || unknown;
end
$$;

-- Ends a run whose crash budget is spent; its task and, if it has one, its parent's are locked.
create function stepfast.fail_for_crashes(
    k_run uuid, k_seq integer, k_token integer, k_error text, k_error_type text, k_message text, k_shape text,
    moment bigint
) returns void
language plpgsql volatile
as $$
declare
    lost record;
    failed_seq integer := k_seq;
begin
    select t.tenant, t.generation, r.workflow, coalesce(g.version, r.version) as version, r.parent_id, r.parent_wait,
           r.leave
      into strict lost
      from stepfast.task t
     cross join lateral (select x.* from stepfast.run x where x.run_id = t.run_id offset 0) r
      left join stepfast.generation g on g.run_id = k_run and g.generation = t.generation
     where t.run_id = k_run;
    if lost.parent_id is null or lost.leave then
        insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, data)
        values (k_run, k_seq, lost.tenant, lost.generation, 'exception_opened', moment, k_token, '{"kind": "failed"}'),
               (k_run, k_seq + 1, lost.tenant, lost.generation, 'dlq_pending', moment, k_token, null),
               (k_run, k_seq + 2, lost.tenant, lost.generation, 'dlq_recorded', moment, k_token, null);
        insert into stepfast.dead_letter (
            run_id, generation, tenant, workflow, version, error_type, message, shape, recorded_at
        )
        values (
            k_run, lost.generation, lost.tenant, lost.workflow, lost.version, k_error_type, k_message, k_shape, moment
        );
        failed_seq := k_seq + 3;
    end if;
    insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, data)
    values (k_run, failed_seq, lost.tenant, lost.generation, 'failed', moment, k_token,
            format('{"error_type": %s, "message": %s}', to_json(k_error_type), to_json(k_message)));
    insert into stepfast.outcome (run_id, generation, tenant, state, error, seq, token, ended_at)
    values (k_run, lost.generation, lost.tenant, 'failed', k_error, failed_seq, k_token, moment);
    perform stepfast.leave_lines(array[k_run]);
    if lost.parent_id is not null then
        perform stepfast.join_ends(array[lost.parent_id], array[lost.parent_wait], array['failed'], moment);
    end if;
end
$$;

-- Tells that a run has lost its holder.
create function stepfast.tell_reaped(k_run uuid, k_seq integer, k_token integer, k_data text, moment bigint)
returns void
language sql volatile
as $$
    insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, data)
    select t.run_id, k_seq, t.tenant, t.generation, 'reaped', moment, k_token, k_data
      from stepfast.task t
     where t.run_id = k_run
$$;

-- Ends a run whose crash budget is spent, if its rows allow it; one whose rows are spoilt is set aside for `doctor`, where
-- it waits for nothing but a person, and holds up no other.
create function stepfast.is_failed_for_crashes(
    k_run uuid, k_seq integer, k_token integer, k_data text, k_error text, k_error_type text, k_message text,
    k_shape text, moment bigint
) returns boolean
language plpgsql volatile
as $$
begin
    perform stepfast.tell_reaped(k_run, k_seq, k_token, k_data, moment);
    perform stepfast.fail_for_crashes(k_run, k_seq + 1, k_token, k_error, k_error_type, k_message, k_shape, moment);
    return true;
exception when integrity_constraint_violation or numeric_value_out_of_range then
    update stepfast.task t
       set state = 'waiting', worker_id = null, token = k_token, due_at = null, deadline_at = null, since_at = moment
     where t.run_id = k_run;
    return false;
end
$$;

-- Open children of groups that nobody will join, except those that were told to go on; a group without any is
-- forgotten. What another pass is looking at is left to it.
create function stepfast.unjoined_children(at_most integer) returns text[]
language plpgsql volatile
as $$
declare
    group_of record;
    still_open uuid[];
    children uuid[] := '{}';
begin
    for group_of in
        select u.run_id, u.wait_id
          from stepfast.unjoined u
         order by u.run_id, u.wait_id
         limit at_most
           for update skip locked
    loop
        still_open := array(
            select r.run_id
              from stepfast.run r
             where r.parent_id = group_of.run_id
               and r.parent_wait = group_of.wait_id
               and not r.leave
               and exists (select from stepfast.task t where t.run_id = r.run_id offset 0)
             order by r.run_id
             limit greatest(1, at_most - cardinality(children))
        );
        if cardinality(still_open) = 0 then
            delete from stepfast.unjoined u where u.run_id = group_of.run_id and u.wait_id = group_of.wait_id;
        end if;
        children := children || still_open[1 : at_most - cardinality(children)];
    end loop;
    return children::text[];
end
$$;

-- The strikes that a run whose holder has died had before: they count in a row, and whoever has recorded the end of a step
-- since the last death has brought the run on, also one that has handed it back. Both are looked for from the end, for a
-- run may be long.
create function stepfast.strikes_before(k_run uuid, k_strikes integer) returns integer
language sql stable
as $$
    select case
        when k_strikes = 0 then 0
        when (
            select s.token
              from stepfast.step s
             where s.run_id = k_run and s.state in ('completed', 'failed')
             order by s.seq desc
             limit 1
        ) > (
            select e.token
              from stepfast.event e
             where e.run_id = k_run and e.type = 'reaped'
             order by e.seq desc
             limit 1
        ) then 0
        else k_strikes
    end
$$;

-- Gives runs of dead workers back to the line, about `at_most` of them, or ends them when their crash budget is spent.
create function stepfast.recover_runs(
    max_crashes integer,
    at_most integer,
    verdict_error text,
    verdict_type text,
    verdict_message text,
    verdict_shape text,
    moment bigint,
    out returned text[],
    out failed text[]
)
language plpgsql volatile
as $$
declare
    holders uuid[] := stepfast.dead_holders();
    holder uuid;
    held uuid[];
    lost uuid[] := '{}';
    alone uuid[] := '{}';
    parents uuid[];
    locked uuid[];
    room integer := at_most;
    one record;
begin
    returned := '{}';
    failed := '{}';
    foreach holder in array holders loop
        exit when room <= 0;
        -- One more than there is room for is taken along: a run that is left over must not look as if it had been alone.
        held := array(
            select t.run_id
              from stepfast.task t
             where t.worker_id = holder
               and t.state = 'leased'
               and exists (select from stepfast.run r where r.run_id = t.run_id offset 0)
             order by t.run_id
             limit room + 2
        );
        if cardinality(held) = 1 then
            alone := alone || held;
        elsif cardinality(held) = room + 2 then
            held := held[1:room];
        end if;
        lost := lost || held;
        room := room - cardinality(held);
    end loop;
    lost := stepfast.without(lost, stepfast.set_spent_aside(lost, 'leased', moment));
    if cardinality(lost) = 0 then
        return;
    end if;

    parents := array(
        select r.parent_id
          from stepfast.task t
         cross join lateral (select x.* from stepfast.run x where x.run_id = t.run_id offset 0) r
         where t.run_id = any (lost)
           and stepfast.strikes_before(t.run_id, t.strikes) + (t.run_id = any (alone))::integer >= max_crashes
           and r.parent_id is not null
    );
    locked := array(
        select t.run_id
          from stepfast.task t
         where t.run_id = any (lost || parents)
         order by t.run_id
           for no key update skip locked
    );
    for one in
        select t.run_id, t.tenant, t.generation, t.token + 1 as token, t.worker_id, t.crashes + 1 as crashes,
               stepfast.strikes_before(t.run_id, t.strikes) + (t.run_id = any (alone))::integer as strikes,
               1 + coalesce((select max(e.seq) from stepfast.event e where e.run_id = t.run_id), 0) as seq,
               format('{"worker": "%s", "crashes": %s}', t.worker_id, t.crashes + 1) as reaped,
               r.parent_id
          from stepfast.task t
         cross join lateral (select x.* from stepfast.run x where x.run_id = t.run_id offset 0) r
         where t.run_id = any (locked)
           and t.run_id = any (lost)
           and t.state || '' = 'leased'
           and t.worker_id = any (holders)
         order by t.run_id
    loop
        -- A parent that is busy just now would have to be waited for, out of order: the next pass will find both.
        continue when one.strikes >= max_crashes
                  and one.parent_id <> all (locked)
                  and exists (select from stepfast.task p where p.run_id = one.parent_id);
        if one.strikes >= max_crashes then
            if stepfast.is_failed_for_crashes(
                one.run_id, one.seq, one.token, one.reaped, verdict_error, verdict_type, verdict_message, verdict_shape,
                moment)
            then
                failed := failed || one.run_id::text;
            end if;
        else
            perform stepfast.tell_reaped(one.run_id, one.seq, one.token, one.reaped, moment);
            update stepfast.task t
               set state = 'ready', worker_id = null, token = one.token, crashes = one.crashes, strikes = one.strikes,
                   since_at = moment
             where t.run_id = one.run_id;
            returned := returned || one.run_id::text;
        end if;
    end loop;
end
$$;

-- Buries workers whose lease ran out, and recovers about `at_most` runs of the dead. Names up to so many runs whose
-- deadline has passed while nobody holds them, and as many children that nobody will join.
create function stepfast.upkeep(
    may_bury boolean,
    max_crashes integer,
    at_most integer,
    verdict_error text,
    verdict_type text,
    verdict_message text,
    verdict_shape text,
    k_worker uuid,
    out buried text[],
    out returned text[],
    out failed text[],
    out overdue text[],
    out unjoined text[],
    out silent_at bigint,
    out definitions bigint,
    out silent_holds boolean,
    out kept boolean
)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set plan_cache_mode = force_custom_plan
set jit = off
set lock_timeout = '5s'
as $$
declare
    moment bigint := stepfast.now_ms();
begin
    buried := '{}';
    if may_bury then
        -- Whoever beats at this moment has its row locked, and lives.
        with late as materialized (
            select w.worker_id
              from stepfast.worker w
             where w.dead_at is null and w.seen_at + w.lease_ms < moment
             order by w.worker_id
               for no key update skip locked
        ), gone as (
            update stepfast.worker w
               set dead_at = moment
              from late
             where w.worker_id = late.worker_id
            returning w.worker_id
        )
        select coalesce(array_agg(g.worker_id::text order by g.worker_id), '{}') into buried from gone g;
        if cardinality(buried) > 0 then
            perform stepfast.wake_for_those_who_stay(buried::uuid[], moment);
        end if;
    end if;

    select r.returned, r.failed
      into returned, failed
      from stepfast.recover_runs(
               max_crashes, at_most, verdict_error, verdict_type, verdict_message, verdict_shape, moment) r;

    overdue := array(
        select t.run_id::text
          from stepfast.task t
         where t.deadline_at <= moment
           and t.deadline_at is not null
           and t.state <> 'leased'
           and exists (select from stepfast.run r where r.run_id = t.run_id offset 0)
         order by t.deadline_at, t.run_id
         limit at_most
    );
    unjoined := stepfast.unjoined_children(at_most);
    select min(w.seen_at + w.lease_ms) into silent_at from stepfast.worker w where w.dead_at is null;
    select coalesce(max(d.number), 0) into definitions from stepfast.definition d;
    silent_holds := coalesce(silent_at < moment, false) and exists (
        select
          from stepfast.worker w
         where w.dead_at is null
           and w.seen_at + w.lease_ms < moment
           and exists (select from stepfast.task t where t.worker_id = w.worker_id and t.state = 'leased' offset 0)
    );
    -- Without waiting: whoever has that row is its heartbeat, or buries it.
    update stepfast.worker w
       set seen_at = moment
     where w.worker_id = any (array(
               select m.worker_id
                 from stepfast.worker m
                where m.worker_id = k_worker and m.dead_at is null and m.seen_at + m.lease_ms / 10 <= moment
                  for no key update skip locked
           ));
    kept := found;
end
$$;
