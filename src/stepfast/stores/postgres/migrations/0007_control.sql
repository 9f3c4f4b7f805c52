-- Commands: what is locked and read for them, and how their changes are written. A command is a transaction of several
-- calls, as the kernel decides between reading and writing; see 0003_saving.sql for the form that rows come in.

-- Locks runs for commands, and answers with the moment from which on nobody else can change them. An open run is locked
-- by its task, with the task of the parent that its end would wake; an ended one has none and is locked by its record.
create function stepfast.lock_runs(k_runs uuid[]) returns bigint
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
set jit = off
as $$
declare
    parents uuid[];
    locked uuid[];
    ended uuid[];
begin
    parents := array(
        select r.parent_id from stepfast.run r where r.run_id = any (k_runs) and r.parent_id is not null
    );
    locked := array(
        select t.run_id
          from stepfast.task t
         where t.run_id = any (k_runs || parents)
         order by t.run_id
           for no key update
    );
    ended := array(
        select r.run_id
          from stepfast.run r
         where r.run_id = any (k_runs) and r.run_id <> all (locked)
         order by r.run_id
           for no key update
    );
    -- Its task would have to be locked now, out of order: all of it is tried again.
    if exists (select from stepfast.task t where t.run_id = any (ended)) then
        raise exception using errcode = 'serialization_failure', message = 'a run was opened again meanwhile';
    end if;
    return stepfast.now_ms();
end
$$;

-- What commands are judged by. What an open run was started with may be large, and no command asks for it.
create function stepfast.locked_runs(k_runs uuid[], moment bigint)
returns table (
    run_id text, tenant text, workflow text, version integer, kind text, code text, input text, generation integer,
    state text, task text, hold boolean, is_put_off boolean, error text, parent_id text, parent_wait integer,
    is_awaited boolean, has_letter boolean, deadline_at bigint, has_begun boolean, token integer, worker_id text,
    queue text, last_event integer, leave boolean, definition text, lacks_code boolean, is_untold boolean
)
language plpgsql volatile
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set plan_cache_mode = force_custom_plan
set jit = off
as $$
begin
    return query
    select s.run_id::text, s.tenant, s.workflow, s.version, s.kind, s.code,
           case when t.run_id is null then s.input else '' end, s.generation, s.state, t.state, coalesce(t.hold, false),
           coalesce(t.due_at > moment, false)
           and exists (select from stepfast.wait w where w.run_id = s.run_id)
           and not exists (
               select from stepfast.wait w where w.run_id = s.run_id and w.kind not in ('delay', 'backoff')
           ),
           s.error, s.parent_id::text, r.parent_wait,
           exists (select from stepfast.wait w where w.run_id = s.parent_id and w.wait_id = r.parent_wait),
           t.run_id is null and exists (
               select
                 from stepfast.dead_letter d
                where d.run_id = s.run_id and d.generation = s.generation and d.resolved_at is null
           ),
           t.deadline_at, coalesce(t.claims > 0, true), s.token, t.worker_id::text, s.queue,
           coalesce((select max(e.seq) from stepfast.event e where e.run_id = s.run_id), 0), r.leave,
           s.definition,
           exists (select from stepfast.wait w where w.run_id = s.run_id and w.kind = 'code'),
           exists (
               select from stepfast.inbox m where m.run_id = s.run_id and m.kind <> 'signal' and not m.told
           )
      from stepfast.run_state s
      join stepfast.run r on r.run_id = s.run_id
      left join stepfast.task t on t.run_id = s.run_id
     where s.run_id = any (k_runs);
end
$$;

-- The records of runs that are not superseded, as far as commands go by them.
create function stepfast.step_marks(k_runs uuid[])
returns table (run_id text, seq integer, path text, name text, count integer, state text, kind text)
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
set jit = off
as $$
begin
    return query
    select s.run_id::text, s.seq, s.path, s.name, s.count, s.state,
           -- A failure whose exception item somebody has resolved is nothing to tell of any more.
           case when s.kind = 'borne' and not exists (
               select
                 from stepfast.exception_item i
                where i.run_id = s.run_id and i.cause = 'step:' || s.seq and i.resolved_at is null
           ) then 'set' else s.kind end
      from stepfast.step s
     where s.run_id = any (k_runs) and s.superseded_by is null
     order by s.run_id, s.seq;
end
$$;

-- Writes changes `d_*` with their events `e_*`, outcomes `o_*`, dead letters `l_row`, holds `h_*` that begin or end, next
-- generations `g_*`, the calls `y_*` that are superseded, waits `c_*` that are closed with them, records `r_*` that are
-- numbered behind those that are there, inbox rows `i_*` whose events are told by now, and what
-- became of dead letters `z_*`. The caller has locked the runs; `d_token` and `d_generation` are those that the change
-- leaves them with.
create function stepfast.change(
    moment bigint,
    d_run uuid[],
    d_token integer[],
    d_worker uuid[],
    d_tenant text[],
    d_generation integer[],
    e_of integer[] default '{}',
    e_seq integer[] default '{}',
    e_type text[] default '{}',
    e_at bigint[] default '{}',
    e_step text[] default '{}',
    e_attempt integer[] default '{}',
    e_actor text[] default '{}',
    e_data text[] default '{}',
    o_of integer[] default '{}',
    o_seq integer[] default '{}',
    o_state text[] default '{}',
    o_value text[] default '{}',
    o_error text[] default '{}',
    o_ended bigint[] default '{}',
    o_parent uuid[] default '{}',
    o_wait integer[] default '{}',
    l_row text[] default '{}',
    h_of integer[] default '{}',
    h_hold boolean[] default '{}',
    h_ready boolean[] default '{}',
    g_of integer[] default '{}',
    g_version integer[] default '{}',
    g_code text[] default '{}',
    g_definition text[] default '{}',
    g_input text[] default '{}',
    g_cause text[] default '{}',
    g_actor text[] default '{}',
    g_reason text[] default '{}',
    y_of integer[] default '{}',
    y_path text[] default '{}',
    y_name text[] default '{}',
    y_count integer[] default '{}',
    r_of integer[] default '{}',
    r_seq integer[] default '{}',
    r_path text[] default '{}',
    r_name text[] default '{}',
    r_count integer[] default '{}',
    r_kind text[] default '{}',
    r_state text[] default '{}',
    r_attempt integer[] default '{}',
    r_digest text[] default '{}',
    r_input text[] default '{}',
    r_value text[] default '{}',
    r_error text[] default '{}',
    r_started bigint[] default '{}',
    r_ended bigint[] default '{}',
    r_due bigint[] default '{}',
    c_of integer[] default '{}',
    c_id integer[] default '{}',
    i_of integer[] default '{}',
    i_n integer[] default '{}',
    z_of integer[] default '{}',
    z_resolution text[] default '{}',
    z_actor text[] default '{}'
) returns void
language plpgsql volatile
set enable_seqscan = off
set enable_nestloop = off
set plan_cache_mode = force_custom_plan
set jit = off
as $$
begin
    for i in 1 .. cardinality(g_of) loop
        perform stepfast.open_generation(
            d_run[g_of[i]], d_generation[g_of[i]], d_tenant[g_of[i]], g_version[i], g_code[i],
            g_definition[i], g_input[i], g_cause[i], g_actor[i], g_reason[i], moment);
        perform stepfast.reopen(d_run[g_of[i]], d_generation[g_of[i]], g_code[i], d_token[g_of[i]], moment);
    end loop;
    if cardinality(y_of) > 0 then
        perform stepfast.supersede(d_run, d_generation, y_of, y_path, y_name, y_count);
    end if;
    if cardinality(r_of) > 0 then
        insert into stepfast.step (
            run_id, seq, tenant, generation, path, name, count, kind, state, attempt, digest, input, value, error,
            started_at, ended_at, due_at, token
        )
        select d_run[r_of[i]],
               r_seq[i] + coalesce((select max(s.seq) from stepfast.step s where s.run_id = d_run[r_of[i]]), 0),
               d_tenant[r_of[i]], d_generation[r_of[i]], r_path[i], r_name[i], r_count[i], r_kind[i], r_state[i],
               r_attempt[i], r_digest[i], r_input[i], r_value[i], r_error[i], r_started[i], r_ended[i], r_due[i],
               d_token[r_of[i]]
          from generate_series(1, cardinality(r_of)) i;
    end if;
    for i in 1 .. cardinality(c_of) loop
        perform stepfast.close_wait(d_run[c_of[i]], c_id[i]);
    end loop;

    insert into stepfast.event (run_id, seq, tenant, generation, type, at, step, attempt, token, actor, data)
    select d_run[e_of[i]], e_seq[i], d_tenant[e_of[i]], d_generation[e_of[i]], e_type[i], e_at[i], e_step[i],
           e_attempt[i], d_token[e_of[i]], e_actor[i], e_data[i]
      from generate_series(1, cardinality(e_of)) i;

    for i in 1 .. cardinality(i_of) loop
        delete from stepfast.inbox m where m.run_id = d_run[i_of[i]] and m.n = i_n[i];
    end loop;

    for i in 1 .. cardinality(h_of) loop
        perform stepfast.set_hold(d_run[h_of[i]], h_hold[i], h_ready[i], moment);
    end loop;

    if cardinality(o_of) > 0 then
        insert into stepfast.outcome (run_id, generation, tenant, state, value, error, seq, token, ended_at)
        select d_run[o_of[i]], d_generation[o_of[i]], d_tenant[o_of[i]], o_state[i], o_value[i], o_error[i], o_seq[i],
               d_token[o_of[i]], o_ended[i]
          from generate_series(1, cardinality(o_of)) i;
        perform stepfast.leave_lines(array(select d_run[i] from unnest(o_of) i));
        perform stepfast.join_ends(array_agg(o_parent[i]), array_agg(o_wait[i]), array_agg(o_state[i]), moment)
           from generate_series(1, cardinality(o_of)) i
          where o_parent[i] is not null
         having count(*) > 0;
    end if;

    if cardinality(l_row) > 0 then
        perform stepfast.add_letters(
            l_row, d_run, d_generation, d_tenant, array_fill(1, array[cardinality(d_run)]), moment);
    end if;

    for i in 1 .. cardinality(z_of) loop
        update stepfast.dead_letter d
           set resolved_at = moment, resolution = z_resolution[i], actor = z_actor[i]
         where d.run_id = d_run[z_of[i]] and d.resolved_at is null;
    end loop;
end
$$;

-- Closes what a run waits for. Children that have not all ended are noted: nobody will join them.
create function stepfast.close_wait(k_run uuid, k_wait integer) returns void
language plpgsql volatile
as $$
begin
    with dropped as (
        delete from stepfast.wait w
         where w.run_id = k_run and w.wait_id = k_wait
        returning w.run_id, w.wait_id, w.tenant, w.kind, w.got + w.failed < w.total as is_left
    )
    insert into stepfast.unjoined (run_id, wait_id, tenant)
    select d.run_id, d.wait_id, d.tenant
      from dropped d
     where d.kind = 'children' and d.is_left
        on conflict do nothing;
end
$$;

-- Puts an ended run back in the line, at its first place. Its messages are numbered on: records name those that were
-- taken, and signals that nobody took are there still.
create function stepfast.reopen(
    k_run uuid, k_generation integer, k_code text, k_token integer, moment bigint
) returns void
language plpgsql volatile
as $$
begin
    insert into stepfast.task (
        run_id, queue, tenant, code, place, state, generation, deadline_at, token, since_at, wakes
    )
    select r.run_id, r.queue, r.tenant, k_code, r.queued_at - r.priority * 3600000::bigint, 'ready', k_generation,
           moment + r.timeout_ms, k_token, moment, coalesce(greatest(
               (
                   select max((e.data::json ->> 'n')::integer)
                     from stepfast.event e
                    where e.run_id = k_run and e.type = 'signalled'
               ),
               (select max(m.n) from stepfast.inbox m where m.run_id = k_run)
           ), 0)
      from stepfast.run r
     where r.run_id = k_run;
end
$$;

-- Holds a run or lets it go on. One that was taken back to before all that it waited for does not wait.
create function stepfast.set_hold(k_run uuid, k_hold boolean, k_ready boolean, moment bigint) returns void
language plpgsql volatile
as $$
declare
    goes_on boolean := k_ready or exists (
        select 1
          from stepfast.task h
         where h.run_id = k_run
           and h.state = 'waiting'
           and not exists (select 1 from stepfast.wait w where w.run_id = h.run_id)
    );
begin
    update stepfast.task t
       set hold = k_hold,
           state = case when goes_on then 'ready' else t.state end,
           due_at = case when goes_on then null else t.due_at end,
           since_at = case when t.state = 'leased' then t.since_at else moment end
     where t.run_id = k_run;
end
$$;

-- What keys of the tenants of runs were used for before.
create function stepfast.used_keys(k_run uuid[], k_command text[], k_key text[])
returns table (tenant text, command text, key text, digest text, answer text)
language plpgsql volatile
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_custom_plan
set jit = off
as $$
begin
    return query
    select k.tenant, k.command, k.key, k.digest, k.answer
      from unnest(k_run, k_command, k_key) u(run_id, command, key)
     cross join lateral (select x.tenant from stepfast.run x where x.run_id = u.run_id offset 0) r
      join stepfast.idempotency k on k.tenant = r.tenant and k.command = u.command and k.key = u.key;
end
$$;

-- Keeps the answers that keys stand for. A key that somebody else has used meanwhile has an answer by now: all of it is
-- tried again, and finds that.
create function stepfast.use_keys(
    k_tenant text[], k_command text[], k_key text[], k_digest text[], k_run uuid[], k_answer text[]
) returns void
language plpgsql volatile
as $$
declare
    added integer;
begin
    -- In the order of the keys, so that two calls with the same keys never wait for each other in a circle.
    insert into stepfast.idempotency (tenant, command, key, digest, run_id, answer, at)
    select u.tenant, u.command, u.key, u.digest, u.run_id, u.answer, stepfast.now_ms()
      from unnest(k_tenant, k_command, k_key, k_digest, k_run, k_answer) u(tenant, command, key, digest, run_id, answer)
     order by u.tenant collate "C", u.command collate "C", u.key collate "C"
        on conflict do nothing;
    get diagnostics added = row_count;
    if added < cardinality(k_key) then
        raise exception using errcode = 'serialization_failure', message = 'a key was used meanwhile';
    end if;
end
$$;
