-- Saving decisions: all rows of a batch in one call. See 0002_starting.sql for the form that rows come in; here
-- `x_of[i]` is the number of the decision that row `i` belongs to.

-- Counts ended children toward the groups of their parents, whose tasks the caller has locked, and wakes the parents
-- of groups that are decided by it: met, or no longer possible. One that waits for code only learns of it by `wakes`.
create function stepfast.join_ends(j_parent uuid[], j_wait integer[], j_state text[], moment bigint) returns void
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    ended record;
    decided boolean;
    goes_on boolean;
begin
    for ended in
        select j_parent[i] as parent_id,
               j_wait[i] as wait_id,
               count(*) filter (where j_state[i] in ('completed', 'partial')) as got,
               count(*) filter (where j_state[i] not in ('completed', 'partial')) as failed
          from generate_series(1, cardinality(j_parent)) i
         group by 1, 2
         order by 1, 2
    loop
        update stepfast.wait w
           set got = w.got + ended.got,
               failed = w.failed + ended.failed
         where w.run_id = ended.parent_id and w.wait_id = ended.wait_id
        returning (w.got >= w.need or w.failed > w.spare or w.got + w.failed >= w.total)
              and not (w.got - ended.got >= w.need or w.failed - ended.failed > w.spare
                       or w.got + w.failed - ended.got - ended.failed >= w.total)
             into decided;
        if decided then
            goes_on := not exists (
                select from stepfast.wait w where w.run_id = ended.parent_id and w.kind = 'code'
            );
            update stepfast.task t
               set wakes = t.wakes + 1,
                   state = case when goes_on and t.state = 'waiting' and not t.hold then 'ready' else t.state end,
                   due_at = case when goes_on and t.state = 'waiting' and not t.hold then null else t.due_at end,
                   since_at = case when goes_on and t.state = 'waiting' and not t.hold then moment else t.since_at end
             where t.run_id = ended.parent_id;
        end if;
    end loop;
end
$$;

-- Deletes all that runs wait for. Groups of children that have not all ended are noted: nobody will join them.
create function stepfast.drop_waits(k_runs uuid[]) returns void
language plpgsql volatile
as $$
begin
    with dropped as (
        delete from stepfast.wait w
         where w.run_id = any (k_runs)
        returning w.run_id, w.wait_id, w.tenant, w.kind, w.got + w.failed < w.total as is_left
    )
    insert into stepfast.unjoined (run_id, wait_id, tenant)
    select d.run_id, d.wait_id, d.tenant
      from dropped d
     where d.kind = 'children' and d.is_left
        on conflict do nothing;
end
$$;

-- Gives a run that its holder lets go of back to the line, after a delay if there is one.
create function stepfast.hand_back(k_run uuid, k_delay bigint, moment bigint) returns void
language plpgsql volatile
as $$
begin
    update stepfast.task t
       set state = case when k_delay > 0 then 'waiting' else 'ready' end,
           worker_id = null,
           token = t.token + 1,
           due_at = case when k_delay > 0 then moment + k_delay end,
           since_at = moment
     where t.run_id = k_run;
    if k_delay > 0 then
        insert into stepfast.wait (run_id, wait_id, tenant, generation, kind, name, path, count, opened_at, due_at)
        select t.run_id, 0, t.tenant, t.generation, 'backoff', 'backoff', '', 0, moment, moment + k_delay
          from stepfast.task t
         where t.run_id = k_run;
    end if;
end
$$;

-- Opens a later life of a run.
create function stepfast.open_generation(
    k_run uuid, k_generation integer, k_tenant text, k_version integer, k_code text, k_definition text,
    k_input text, k_cause text, k_actor text, k_reason text, moment bigint
) returns void
language plpgsql volatile
as $$
begin
    insert into stepfast.generation (
        run_id, generation, tenant, version, code, definition, input, cause, actor, reason, opened_at
    )
    values (
        k_run, k_generation, k_tenant, k_version, k_code, k_definition, k_input, k_cause, k_actor, k_reason, moment
    );
end
$$;

-- The records of calls `y_*` count no more: they belong to run `d_run[y_of[i]]`, whose later life is its generation
-- `d_generation[y_of[i]]`. One join for all runs: a look through all calls for each takes the square of their number.
create function stepfast.supersede(
    d_run uuid[], d_generation integer[], y_of integer[], y_path text[], y_name text[], y_count integer[]
) returns void
language plpgsql volatile
set enable_seqscan = off
set enable_nestloop = off
set enable_mergejoin = off
set plan_cache_mode = force_custom_plan
set jit = off
as $$
begin
    update stepfast.step s
       set superseded_by = d_generation[y.owner]
      from unnest(y_of, y_path, y_name, y_count) y(owner, path, name, count)
     where s.run_id = any (array(select distinct d_run[u] from unnest(y_of) u))
       and s.superseded_by is null
       and s.run_id = d_run[y.owner]
       and s.path = y.path
       and s.name = y.name
       and s.count = y.count;
end
$$;

-- How long each generation of a run may take. The plan is made anew each time, as for `queued_at`.
create function stepfast.timeout_of(k_run uuid) returns bigint
language plpgsql volatile
set plan_cache_mode = force_custom_plan
as $$
begin
    return (select r.timeout_ms from stepfast.run r where r.run_id = k_run);
end
$$;

-- Takes runs that have ended out of every line.
create function stepfast.leave_lines(k_runs uuid[]) returns void
language plpgsql volatile
as $$
begin
    delete from stepfast.task t where t.run_id = any (k_runs);
    perform stepfast.drop_waits(k_runs);
    if not exists (select from stepfast.inbox m where m.run_id = any (k_runs)) then
        return;
    end if;
    -- What its holder had no time to tell is told behind the end of a run. Signals that nobody took stay: the run may be
    -- opened again.
    with gone as (
        delete from stepfast.inbox m where m.run_id = any (k_runs) and m.kind <> 'signal' returning m.*
    )
    insert into stepfast.event (run_id, seq, tenant, generation, type, at, step, token, actor, data)
    select g.run_id,
           (select max(e.seq) from stepfast.event e where e.run_id = g.run_id)
           + row_number() over (partition by g.run_id order by g.n),
           g.tenant, o.generation, g.kind, g.at, nullif(g.name, ''), o.token, g.actor, g.value
      from gone g
      join lateral (
           select x.generation, x.token
             from stepfast.outcome x
            where x.run_id = g.run_id
            order by x.generation desc
            limit 1
      ) o on true
     where not g.told
     order by g.run_id, g.n;
end
$$;

-- Writes dead letters: each is JSON, with the number of its decision.
create function stepfast.add_letters(
    l_row text[], d_run uuid[], d_generation integer[], d_tenant text[], answers integer[], moment bigint
) returns void
language plpgsql volatile
set plan_cache_mode = force_custom_plan
as $$
begin
    insert into stepfast.dead_letter (
        run_id, generation, tenant, workflow, version, step, error_type, message, shape, recorded_at
    )
    select d_run[l.owner], d_generation[l.owner], d_tenant[l.owner], l.workflow, l.version, l.step, l.error_type,
           l.message, l.shape, moment
      from unnest(l_row) u(text)
     cross join lateral json_to_record(u.text::json) l (
          "owner" integer, workflow text, version integer, step text, error_type text, message text, shape text
     )
     where answers[l.owner] = 1;
end
$$;

-- Saves decisions `d_*` with their records `r_*`, events `e_*`, outcomes `o_*`, dead letters `l_row`, opened waits `w_*`
-- with reviews `v_row`,
-- closed waits `c_*`, taken inbox rows `i_*`, releases `p_*`, next generations `x_*` with the calls `y_*` that they
-- supersede and children `n_*`, of which only those that the batch has need be given. `d_again` says that an earlier
-- call broke off without an answer. Answers each: 0 the fence does not hold, 1 saved, 2 woken, 3 was saved before.
create function stepfast.save(
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
    o_of integer[] default '{}',
    o_seq integer[] default '{}',
    o_state text[] default '{}',
    o_value text[] default '{}',
    o_error text[] default '{}',
    o_ended bigint[] default '{}',
    o_parent uuid[] default '{}',
    o_wait integer[] default '{}',
    l_row text[] default '{}',
    w_of integer[] default '{}',
    w_id integer[] default '{}',
    w_kind text[] default '{}',
    w_name text[] default '{}',
    w_path text[] default '{}',
    w_count integer[] default '{}',
    w_due_in bigint[] default '{}',
    w_need integer[] default '{}',
    w_spare integer[] default '{}',
    w_total integer[] default '{}',
    v_row text[] default '{}',
    c_of integer[] default '{}',
    c_id integer[] default '{}',
    i_of integer[] default '{}',
    i_n integer[] default '{}',
    p_of integer[] default '{}',
    p_wakes integer[] default '{}',
    p_delay bigint[] default '{}',
    x_of integer[] default '{}',
    x_seq integer[] default '{}',
    x_version integer[] default '{}',
    x_code text[] default '{}',
    x_definition text[] default '{}',
    x_input text[] default '{}',
    x_cause text[] default '{}',
    x_state text[] default '{}',
    x_error text[] default '{}',
    x_whole boolean[] default '{}',
    y_of integer[] default '{}',
    y_path text[] default '{}',
    y_name text[] default '{}',
    y_count integer[] default '{}',
    n_of integer[] default '{}',
    n_id uuid[] default '{}',
    n_tenant text[] default '{}',
    n_workflow text[] default '{}',
    n_version integer[] default '{}',
    n_kind text[] default '{}',
    n_queue text[] default '{}',
    n_code text[] default '{}',
    n_priority integer[] default '{}',
    n_input text[] default '{}',
    n_digest text[] default '{}',
    n_key text[] default '{}',
    n_delay bigint[] default '{}',
    n_timeout bigint[] default '{}',
    n_parent uuid[] default '{}',
    n_parent_wait integer[] default '{}',
    n_leave boolean[] default '{}',
    n_lane text[] default '{}',
    n_actor text[] default '{}',
    n_correlation text[] default '{}',
    n_causation text[] default '{}',
    n_thread text[] default '{}',
    n_subject text[] default '{}',
    n_metadata text[] default '{}',
    n_definition text[] default '{}',
    t_of integer[] default '{}',
    t_tag text[] default '{}',
    d_again boolean default false,
    out answers integer[]
)
language plpgsql volatile
set enable_seqscan = off
set enable_nestloop = off
set plan_cache_mode = force_generic_plan
set jit = off
set lock_timeout = '5s'
as $$
declare
    moment bigint := stepfast.now_ms();
    wakes_now integer[];
    chosen uuid[];
    is_left boolean;
    first integer;
begin
    -- The fence: every task this batch speaks for, its own runs and the parents it may wake, is locked in one order.
    with locked as materialized (
        select t.run_id, t.token, t.worker_id, t.wakes
          from stepfast.task t
         where t.run_id = any (d_run || o_parent)
         order by t.run_id
           for no key update
    )
    select array_agg(
               (l.token is not null and l.token = d_token[i] and l.worker_id is not distinct from d_worker[i])::integer
               order by i),
           array_agg(l.wakes order by i)
      into answers, wakes_now
      from generate_series(1, cardinality(d_run)) i
      left join locked l on l.run_id = d_run[i];

    if d_again then
        for i in 1 .. cardinality(d_run) loop
            first := array_position(e_of, i);
            if exists (
                select
                  from stepfast.event e
                 where e.run_id = d_run[i] and e.seq = e_seq[first] and e.token = d_token[i] and e.type = e_type[first]
            ) then
                answers[i] := 3;
            end if;
        end loop;
    end if;

    for i in 1 .. cardinality(p_of) loop
        if answers[p_of[i]] = 1 and p_wakes[i] <> wakes_now[p_of[i]] then
            answers[p_of[i]] := 2;
        end if;
    end loop;

    if cardinality(r_of) > 0 then
        insert into stepfast.step (
            run_id, seq, tenant, generation, path, name, count, kind, state, attempt, digest, input, value, error,
            started_at, ended_at, due_at, token
        )
        select d_run[r_of[i]], r_seq[i], d_tenant[r_of[i]], d_generation[r_of[i]], r_path[i], r_name[i], r_count[i],
               r_kind[i], r_state[i], r_attempt[i], r_digest[i], r_input[i], r_value[i], r_error[i], r_started[i],
               r_ended[i], r_due[i], d_token[r_of[i]]
          from generate_series(1, cardinality(r_of)) i
         where answers[r_of[i]] = 1;
    end if;

    insert into stepfast.event (run_id, seq, tenant, generation, type, at, step, attempt, token, actor, data)
    select d_run[e_of[i]], e_seq[i], d_tenant[e_of[i]], d_generation[e_of[i]], e_type[i], e_at[i], e_step[i],
           e_attempt[i], d_token[e_of[i]], e_actor[i], e_data[i]
      from generate_series(1, cardinality(e_of)) i
     where answers[e_of[i]] = 1;

    for i in 1 .. cardinality(c_of) loop
        continue when answers[c_of[i]] <> 1;
        delete from stepfast.wait w
         where w.run_id = d_run[c_of[i]] and w.wait_id = c_id[i]
        returning w.kind = 'children' and w.got + w.failed < w.total
             into is_left;
        if is_left then
            insert into stepfast.unjoined (run_id, wait_id, tenant)
            values (d_run[c_of[i]], c_id[i], d_tenant[c_of[i]])
                on conflict do nothing;
        end if;
    end loop;

    for i in 1 .. cardinality(i_of) loop
        if answers[i_of[i]] = 1 then
            delete from stepfast.inbox m where m.run_id = d_run[i_of[i]] and m.n = i_n[i];
        end if;
    end loop;

    if cardinality(w_of) > 0 then
        insert into stepfast.wait (
            run_id, wait_id, tenant, generation, kind, name, path, count, opened_at, due_at, need, spare, total
        )
        select d_run[w_of[i]], w_id[i], d_tenant[w_of[i]], d_generation[w_of[i]], w_kind[i], w_name[i], w_path[i],
               w_count[i], moment, moment + w_due_in[i], w_need[i], w_spare[i], w_total[i]
          from generate_series(1, cardinality(w_of)) i
         where answers[w_of[i]] = 1;
    end if;

    if cardinality(v_row) > 0 then
        perform stepfast.open_reviews(v_row, d_run, d_generation, answers, moment);
    end if;

    if cardinality(n_of) > 0 then
        perform stepfast.start_runs(
            null, array(select answers[n_of[i]] = 1 from generate_series(1, cardinality(n_of)) i order by i),
            false, n_id, n_tenant, n_workflow, n_version, n_kind, n_queue, n_code, n_priority, n_input, n_digest, n_key,
            n_delay, n_timeout, n_parent, n_parent_wait, n_leave, n_lane, n_actor, n_correlation, n_causation,
            n_thread, n_subject, n_metadata, n_definition, t_of, t_tag);
    end if;

    -- The next generation is opened before its task is released below.
    for i in 1 .. cardinality(x_of) loop
        continue when answers[x_of[i]] <> 1;
        insert into stepfast.outcome (run_id, generation, tenant, state, error, seq, token, ended_at)
        values (
            d_run[x_of[i]], d_generation[x_of[i]], d_tenant[x_of[i]], x_state[i], x_error[i], x_seq[i],
            d_token[x_of[i]], moment
        );
        perform stepfast.drop_waits(array[d_run[x_of[i]]]);
        perform stepfast.open_generation(
            d_run[x_of[i]], d_generation[x_of[i]] + 1, d_tenant[x_of[i]], x_version[i], x_code[i],
            x_definition[i], x_input[i], x_cause[i], null, null, moment);
        if x_whole[i] then
            update stepfast.step s
               set superseded_by = d_generation[x_of[i]] + 1
             where s.run_id = d_run[x_of[i]] and s.superseded_by is null;
        end if;
        update stepfast.task t
           set generation = t.generation + 1, code = x_code[i], claims = 0, crashes = 0, strikes = 0,
               tries = case when x_cause[i] = 'retry' then t.tries + 1 else 0 end,
               deadline_at = moment + p_delay[array_position(p_of, x_of[i])] + stepfast.timeout_of(t.run_id)
         where t.run_id = d_run[x_of[i]];
    end loop;
    if cardinality(y_of) > 0 then
        perform stepfast.supersede(
                    array_agg(case when answers[i] = 1 then d_run[i] end order by i),
                    array_agg(d_generation[i] + 1 order by i), y_of, y_path, y_name, y_count)
           from generate_series(1, cardinality(d_run)) i;
    end if;

    if cardinality(p_of) > 0 then
        chosen := array(
            select d_run[p_of[i]]
              from generate_series(1, cardinality(p_of)) i
             where answers[p_of[i]] = 1 and p_wakes[i] is not null
        );
        -- Its worker outlived the run, so it is no suspect any more. One that waits for code has use for no other end.
        update stepfast.task t
           set state = 'waiting',
               worker_id = null,
               crashes = 0,
               strikes = 0,
               due_at = (
                   select case when count(*) filter (where w.kind = 'code') = 0 then min(w.due_at) end
                     from stepfast.wait w
                    where w.run_id = t.run_id
               ),
               since_at = moment
         where t.run_id = any (chosen);
        for i in 1 .. cardinality(p_of) loop
            continue when answers[p_of[i]] <> 1 or p_wakes[i] is not null;
            perform stepfast.hand_back(d_run[p_of[i]], p_delay[i], moment);
        end loop;
    end if;

    if cardinality(o_of) > 0 then
        insert into stepfast.outcome (run_id, generation, tenant, state, value, error, seq, token, ended_at)
        select d_run[o_of[i]], d_generation[o_of[i]], d_tenant[o_of[i]], o_state[i], o_value[i], o_error[i], o_seq[i],
               d_token[o_of[i]], o_ended[i]
          from generate_series(1, cardinality(o_of)) i
         where answers[o_of[i]] = 1;
        chosen := array(
            select d_run[o_of[i]] from generate_series(1, cardinality(o_of)) i where answers[o_of[i]] = 1
        );
        perform stepfast.leave_lines(chosen);
        if exists (select from unnest(o_parent) u where u is not null) then
            perform stepfast.join_ends(array_agg(o_parent[i]), array_agg(o_wait[i]), array_agg(o_state[i]), moment)
               from generate_series(1, cardinality(o_of)) i
              where answers[o_of[i]] = 1 and o_parent[i] is not null;
        end if;
    end if;

    if cardinality(l_row) > 0 then
        perform stepfast.add_letters(l_row, d_run, d_generation, d_tenant, answers, moment);
    end if;
end
$$;
