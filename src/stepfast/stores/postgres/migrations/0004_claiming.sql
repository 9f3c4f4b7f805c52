-- Claiming: cost follows what is taken, never how much stands in line.

-- When the first waiting task of a queue is due.
create function stepfast.next_due_at(p_queue text) returns bigint
language plpgsql volatile
as $$
begin
    return (
        select t.due_at
          from stepfast.task t
         where t.queue = p_queue and t.state = 'waiting' and t.due_at is not null and not t.hold
         order by t.due_at
         limit 1
    );
end
$$;

-- Waiting tasks of a queue that are due join the line, a bounded number at a time.
create function stepfast.promote(p_queue text, moment bigint) returns void
language plpgsql volatile
as $$
begin
    update stepfast.task t
       set state = 'ready', due_at = null, since_at = moment
     where t.run_id = any (array(
               select d.run_id
                 from stepfast.task d
                where d.queue = p_queue
                  and d.state = 'waiting'
                  and not d.hold
                  and d.due_at <= moment
                order by d.due_at
                limit 1000
                  for update skip locked
           ));
end
$$;

-- The first `p_limit` tenants from `p_from` on, up to `p_until` if given, that have ready tasks for one of the codes, in
-- order; a tenant with several such codes comes several times. For each code it is a walk that reads one index entry
-- for each tenant: neither a long line nor code that this worker lacks costs anything.
create function stepfast.walk_tenants(
    p_queue text,
    p_codes text[],
    p_from text,
    p_until text,
    p_limit integer,
    out tenants text[],
    out codes text[],
    out total integer
)
language plpgsql volatile
as $$
begin
    with pair as (
        select w.tenant, c.code, dense_rank() over (order by w.tenant) as turn
          from (select distinct u.code from unnest(p_codes) u(code)) c
         cross join lateral (
              with recursive walk as (
                  (
                      select t.tenant, 1 as n
                        from stepfast.task t
                       where t.queue = p_queue
                         and t.code = c.code
                         and t.tenant >= p_from
                         and t.state = 'ready'
                         and not t.hold
                         and t.crashes = 0
                       order by t.tenant
                       limit 1
                  )
                  union all
                  select f.tenant, w.n + 1
                    from walk w
                   cross join lateral (
                        select t.tenant
                          from stepfast.task t
                         where t.queue = p_queue
                           and t.code = c.code
                           and t.tenant > w.tenant
                           and t.state = 'ready'
                           and not t.hold
                           and t.crashes = 0
                         order by t.tenant
                         limit 1
                   ) f
                   where w.n < p_limit and (p_until is null or w.tenant < p_until)
              )
              select walk.tenant from walk where p_until is null or walk.tenant <= p_until
         ) w
    )
    select coalesce(array_agg(p.tenant order by p.turn, p.code), '{}'),
           coalesce(array_agg(p.code order by p.turn, p.code), '{}'),
           coalesce(max(p.turn), 0)
      into tenants, codes, total
      from pair p
     where p.turn <= p_limit;
end
$$;

-- The same for a worker that serves some tenants only: it looks at those and no others.
create function stepfast.look_at_tenants(
    p_queue text,
    p_codes text[],
    p_tenants text[],
    p_from text,
    p_until text,
    p_limit integer,
    out tenants text[],
    out codes text[],
    out total integer
)
language plpgsql volatile
as $$
begin
    with pair as (
        select o.tenant, c.code, dense_rank() over (order by o.tenant) as turn
          from (select distinct u.tenant collate "C" as tenant from unnest(p_tenants) u(tenant)) o
         cross join (select distinct u.code from unnest(p_codes) u(code)) c
         where o.tenant >= p_from
           and (p_until is null or o.tenant <= p_until)
           and (
               select true
                 from stepfast.task t
                where t.queue = p_queue and t.code = c.code and t.tenant = o.tenant
                  and t.state = 'ready' and not t.hold and t.crashes = 0
                limit 1
           )
    )
    select coalesce(array_agg(p.tenant order by p.turn, p.code), '{}'),
           coalesce(array_agg(p.code order by p.turn, p.code), '{}'),
           coalesce(max(p.turn), 0)
      into tenants, codes, total
      from pair p
     where p.turn <= p_limit;
end
$$;

-- The first tenants after `p_after`, going round to that tenant itself. `reached` is the last tenant of the round so
-- far, null at its turning point, and `wrapped` says that the round has passed that.
create function stepfast.next_tenants(
    p_queue text,
    p_codes text[],
    p_tenants text[],
    p_after text,
    p_limit integer,
    inout reached text,
    inout wrapped boolean,
    out tenants text[],
    out codes text[],
    out total integer
)
language plpgsql volatile
as $$
declare
    start text;
    part record;
begin
    tenants := '{}';
    codes := '{}';
    total := 0;
    loop
        -- No text lies between one and the same with this least character behind it.
        start := coalesce(reached || chr(1), '');
        if p_tenants is null then
            part := stepfast.walk_tenants(
                p_queue, p_codes, start, case when wrapped then p_after end, p_limit - total);
        else
            part := stepfast.look_at_tenants(
                p_queue, p_codes, p_tenants, start, case when wrapped then p_after end, p_limit - total);
        end if;
        tenants := tenants || part.tenants;
        codes := codes || part.codes;
        total := total + part.total;
        if part.total > 0 then
            reached := part.tenants[cardinality(part.tenants)];
        end if;
        exit when total = p_limit or wrapped;
        wrapped := true;
        reached := null;
    end loop;
end
$$;

-- Locks ready tasks of a queue, `p_room` at most: up to `p_share` of each tenant, by place over all its codes, in the
-- order of the pairs. Those in `p_except` are locked already.
create function stepfast.lock_ready(
    p_queue text, p_tenants text[], p_codes text[], p_share integer, p_room integer, p_except uuid[]
) returns uuid[]
language plpgsql volatile
as $$
begin
    return array(
        select y.run_id
          from (
              select p.tenant, min(p.n) as turn, array_agg(p.code) as codes
                from unnest(p_tenants, p_codes) with ordinality p(tenant, code, n)
               group by p.tenant
               order by turn
          ) o
         cross join lateral (
              select x.run_id
                from unnest(o.codes) c
               cross join lateral (
                    select t.run_id, t.place
                      from stepfast.task t
                     where t.queue = p_queue
                       and t.code = c
                       and t.tenant = o.tenant
                       and t.state = 'ready'
                       and not t.hold
                       and t.crashes = 0
                       and t.run_id <> all (p_except)
                     order by t.place, t.run_id
                     limit p_share
                       for update skip locked
               ) x
               order by x.place, x.run_id
               limit p_share
         ) y
         limit p_room
    );
end
$$;

-- Locks up to `p_room` ready tasks of a queue, in turn over tenants after `p_after`.
create function stepfast.pick(
    p_queue text, p_room integer, p_after text, p_codes text[], p_burst integer, p_tenants text[]
) returns uuid[]
language plpgsql volatile
as $$
declare
    picked uuid[] := '{}';
    want integer := (p_room + p_burst - 1) / p_burst;
    room integer := p_room;
    share integer;
    reached text := p_after;
    wrapped boolean := false;
    line record;
begin
    while room > 0 loop
        line := stepfast.next_tenants(p_queue, p_codes, p_tenants, p_after, want, reached, wrapped);
        exit when line.total = 0;
        reached := line.reached;
        wrapped := line.wrapped;
        if line.total = want then
            picked := picked || stepfast.lock_ready(p_queue, line.tenants, line.codes, p_burst, room, '{}');
            room := p_room - cardinality(picked);
            want := least(room, 2 * want);
        else
            -- These are all. They share the room, and what some leave goes to the others: one alone is not slowed.
            share := greatest(p_burst, (room + line.total - 1) / line.total);
            picked := picked || stepfast.lock_ready(p_queue, line.tenants, line.codes, share, room, '{}');
            room := p_room - cardinality(picked);
            exit when room = 0 or share >= p_room;
            return picked || stepfast.lock_ready(p_queue, line.tenants, line.codes, room, room, picked);
        end if;
    end loop;
    return picked;
end
$$;

-- The fewest crashes of a suspect that the worker could take, but for those in `p_except`; suspects are few, and wait in a
-- line of their own.
create function stepfast.suspect_level(p_queue text, p_codes text[], p_tenants text[], p_except uuid[]) returns integer
language plpgsql volatile
as $$
begin
    return (
        select t.crashes
          from stepfast.task t
         where t.queue = p_queue
           and t.state = 'ready'
           and not t.hold
           and t.crashes > 0
           and t.code = any (p_codes)
           and (p_tenants is null or t.tenant = any (p_tenants))
           and t.run_id <> all (p_except)
         order by t.crashes, t.place, t.run_id
         limit 1
    );
end
$$;

-- Locks suspects of one level, the least suspicious there is, as many as the worker has room for beside such a run.
create function stepfast.pick_suspects(
    p_queue text, p_room integer, p_codes text[], p_tenants text[], p_rooms integer[]
) returns uuid[]
language plpgsql volatile
as $$
declare
    level integer := stepfast.suspect_level(p_queue, p_codes, p_tenants, '{}');
begin
    return array(
        select t.run_id
          from stepfast.task t
         where t.queue = p_queue
           and t.state = 'ready'
           and not t.hold
           and t.crashes > 0
           and t.crashes = level
           and t.code = any (p_codes)
           and (p_tenants is null or t.tenant = any (p_tenants))
         order by t.place, t.run_id
         limit greatest(0, least(p_room, coalesce(p_rooms[least(level, cardinality(p_rooms))], 0)))
           for update skip locked
    );
end
$$;

-- Locks ready tasks for a worker that is alive: up to `q_room[i]` of queue `q_name[i]`, after tenant `q_after[i]`. With
-- `c_suspects`, its rooms for runs with 1, 2, 3, ... crashes, it asks for suspects alone. Says beside what it has picked
-- when the next waiting task is due, and whether suspects are left that the worker could take.
create function stepfast.pick_all(
    c_worker uuid,
    q_name text[],
    q_room integer[],
    q_after text[],
    c_codes text[],
    c_burst integer,
    c_tenants text[],
    c_suspects integer[],
    out picked uuid[],
    out next_due_at bigint,
    out suspects_wait boolean
)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set plan_cache_mode = force_generic_plan
set jit = off
set lock_timeout = '5s'
as $$
declare
    moment bigint := stepfast.now_ms();
begin
    picked := '{}';
    suspects_wait := false;
    if stepfast.label_while_it_stays(c_worker) is null then
        return;
    end if;
    for i in 1 .. cardinality(q_name) loop
        if stepfast.next_due_at(q_name[i]) <= moment then
            perform stepfast.promote(q_name[i], moment);
        end if;
        if c_suspects is null then
            picked := picked || stepfast.pick(q_name[i], q_room[i], q_after[i], c_codes, c_burst, c_tenants);
        else
            picked := picked || stepfast.pick_suspects(q_name[i], q_room[i], c_codes, c_tenants, c_suspects);
        end if;
    end loop;
    for i in 1 .. cardinality(q_name) loop
        next_due_at := least(next_due_at, stepfast.next_due_at(q_name[i]));
        suspects_wait := suspects_wait
                         or stepfast.suspect_level(q_name[i], c_codes, c_tenants, picked) is not null;
    end loop;
end
$$;

-- Locks given tasks, those of one of the codes, for a worker that is alive; those of them that are due join the line.
create function stepfast.pick_runs(c_worker uuid, c_runs uuid[], c_codes text[]) returns uuid[]
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set plan_cache_mode = force_generic_plan
set jit = off
set lock_timeout = '5s'
as $$
declare
    moment bigint := stepfast.now_ms();
    chosen uuid[];
begin
    if stepfast.label_while_it_stays(c_worker) is null then
        return '{}';
    end if;
    chosen := array(
        select t.run_id
          from stepfast.task t
         where t.run_id = any (c_runs) and t.code = any (c_codes)
         order by t.run_id
           for no key update
    );
    update stepfast.task t
       set state = 'ready', due_at = null, since_at = moment
     where t.run_id = any (chosen) and t.state || '' = 'waiting' and not t.hold and t.due_at <= moment;
    return chosen;
end
$$;

-- Whether a run's numbers are near the greatest that there are. No run gets there by itself, and one whose row somebody has
-- changed must not be counted on: the number after the greatest is an error of the whole statement, and of all runs in it.
create function stepfast.is_spent(t stepfast.task, last_event integer) returns boolean
language sql immutable
as $$
    select greatest(t.generation, t.wakes, t.token, t.claims, t.crashes, t.strikes, t.tries, last_event) >= 2000000000
$$;

-- Sets those of given runs aside, in that state, whose numbers are spent: they wait for nothing but a person.
create function stepfast.set_spent_aside(k_runs uuid[], k_state text, moment bigint) returns uuid[]
language plpgsql volatile
as $$
declare
    spent uuid[] := array(
        select t.run_id
          from stepfast.task t
         where t.run_id = any (k_runs)
           and t.state || '' = k_state
           and stepfast.is_spent(t, (select max(e.seq) from stepfast.event e where e.run_id = t.run_id))
         order by t.run_id
           for no key update skip locked
    );
begin
    update stepfast.task t
       set state = 'waiting', worker_id = null, due_at = null, deadline_at = null, since_at = moment
     where t.run_id = any (spent);
    return spent;
end
$$;

-- Leases tasks that its caller has locked to a worker, those that are ready indeed, and hands out what their holder must
-- know of them, in the same order. All of it is one statement in a snapshot that is younger than the locks: it sees
-- whatever an earlier holder has saved.
--
-- The plan may have been made when the tables were empty and every way through them looked the same, so the statement
-- leaves it one way only: `task` by its key, as no index of ready tasks fits `state || ''`; `run` by its key, as no other
-- index has the order that is asked for without a sort, and the range is no equality, by which that order would go
-- without saying; `offset 0` so that rows are looked up one by one.
create function stepfast.lease(k_worker uuid, k_runs uuid[])
returns table (
    run_id text, tenant text, workflow text, version integer, kind text, queue text, generation integer, token integer,
    worker_id text, input text, wakes integer, hold boolean, claims integer, crashes integer, last_seq integer,
    last_event integer, queued_at bigint, deadline_at bigint, tries integer, parent_id text, parent_wait integer,
    actor text, correlation_id text, causation_id text, thread_id text, subject text, metadata text, leave boolean,
    kept_seq integer, definition text, epoch integer, begun boolean
)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set enable_sort = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    moment bigint := stepfast.now_ms();
    holder text := k_worker::text;
    claimed_data text;
    handed_out integer;
begin
    if cardinality(k_runs) = 0 then
        return;
    end if;
    claimed_data := stepfast.claimed_data(k_worker, w.label) from stepfast.worker w where w.worker_id = k_worker;
    return query
    with taken as materialized (
        update stepfast.task t
           set state = 'leased', worker_id = k_worker, token = t.token + 1, claims = t.claims + 1, due_at = null,
               since_at = moment
          from unnest(k_runs) with ordinality u(run_id, turn)
         cross join lateral (
              select coalesce((select max(e.seq) from stepfast.event e where e.run_id = u.run_id), 0) as seq
              offset 0
         ) l
         where t.run_id = u.run_id and t.state || '' = 'ready' and not t.hold and not stepfast.is_spent(t, l.seq)
        returning u.turn, t.run_id, t.tenant, t.queue, t.generation, t.token, t.wakes, t.hold, t.claims, t.crashes,
                  t.deadline_at, t.tries, l.seq + 1 as seq
    ), numbered as materialized (
        -- Of a run that is to ask after outside work nothing is told yet: most often it is not done, and nothing changes.
        select k.*,
               case when k.claims > 1 then exists (
                   select
                     from stepfast.wait w
                    where w.run_id = k.run_id and w.kind = 'outside' and w.due_at is not null
               ) else false end as is_quiet
          from taken k
    ), told as (
        insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, data)
        select k.run_id, k.seq, k.tenant, k.generation, 'claimed', moment, k.token, claimed_data
          from numbered k
         where not k.is_quiet
    ), closed as (
        -- Whether the code of this worker fits is found out anew. The backoff of a step, whose id is the number of its
        -- record, is closed by the step's next record.
        delete from stepfast.wait w
         using taken k
         where w.run_id = k.run_id and w.wait_id <= 0 and w.kind in ('delay', 'backoff', 'code')
    )
    select k.run_id::text, k.tenant, r.workflow, coalesce(g.version, r.version), r.kind, k.queue, k.generation, k.token,
           holder, coalesce(g.input, r.input), k.wakes, k.hold, k.claims, k.crashes,
           coalesce(n.seq, 0), k.seq - k.is_quiet::integer, r.queued_at, k.deadline_at, k.tries, r.parent_id::text,
           r.parent_wait, r.actor, r.correlation_id, r.causation_id, r.thread_id, r.subject, r.metadata, r.leave,
           case when k.generation > 1 then coalesce((
               select max(s.seq) from stepfast.step s where s.run_id = k.run_id and s.generation < k.generation
           ), 0) else 0 end,
           case when g.run_id is null then r.definition else g.definition end,
           case when k.generation > 1 then coalesce((
               select e.generation
                 from stepfast.generation e
                where e.run_id = k.run_id and e.cause in ('continue_as', 'rerun')
                order by e.generation desc
                limit 1
           ), 1) else 1 end,
           -- The first commit of its code tells that it has begun. A record that a person gave says nothing of that, nor
           -- does an earlier claim: whoever had it may have handed it back, or died, before.
           case when k.claims = 1 then false
                when n.generation = k.generation and n.kind <> 'given' then true
                else coalesce((
                    select true
                      from stepfast.event e
                     where e.run_id = k.run_id
                       and e.seq > coalesce((
                               select o.seq
                                 from stepfast.outcome o
                                where o.run_id = k.run_id and o.generation = k.generation - 1
                           ), 0)
                       and e.generation = k.generation
                       and e.type = 'started'
                     order by e.seq
                     limit 1
                ), false)
            end
      from numbered k
     cross join lateral (
          select x.*
            from stepfast.run x
           where x.run_id >= k.run_id and x.run_id <= k.run_id
           order by x.run_id
           limit 1
      ) r
      left join lateral (
          select x.*
            from stepfast.generation x
           where k.generation > 1 and x.run_id = k.run_id and x.generation = k.generation
          offset 0
      ) g on true
      left join lateral (
          -- Nothing is recorded of a run that nobody has held before.
          select x.seq, x.generation, x.kind
            from stepfast.step x
           where (k.claims > 1 or k.generation > 1) and x.run_id = k.run_id
           order by x.seq desc
           limit 1
      ) n on true
     order by k.turn;
    get diagnostics handed_out = row_count;
    if handed_out < cardinality(k_runs) then
        perform stepfast.set_spent_aside(k_runs, 'ready', moment);
    end if;
end
$$;

-- The records of runs that are not superseded.
create function stepfast.records(h_runs uuid[])
returns table (
    run_id text, path text, name text, count integer, kind text, state text, attempt integer, digest text, input text,
    value text, error text, started_at bigint, ended_at bigint, due_at bigint, seq integer
)
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
begin
    return query
    select s.run_id::text, s.path, s.name, s.count, s.kind, s.state, s.attempt, s.digest, s.input, s.value, s.error,
           s.started_at, s.ended_at, s.due_at, s.seq
      from stepfast.step s
     where s.run_id = any (h_runs) and s.superseded_by is null
     order by s.run_id, s.seq;
end
$$;
