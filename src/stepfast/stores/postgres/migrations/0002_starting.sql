-- Starting runs. One call is one statement and one round trip in a transaction of its own, so that a client frozen at
-- any moment holds no lock. Rows come as arrays of columns, of which row `i` is the `i`th element. Plans are pinned by
-- settings of the function: the statistics may be older than the table is large, and behind a pooler a session is not
-- ours to set. Without `jit = off` a plan that uses what is switched off counts as dear, and is compiled at length.

-- What the event `claimed` says.
create function stepfast.claimed_data(k_worker uuid, k_label text) returns text
language plpgsql immutable
as $$
begin
    return case
        when k_label = '' then format('{"worker": "%s"}', k_worker)
        else format('{"worker": "%s", "label": %s}', k_worker, to_json(k_label))
    end;
end
$$;

-- The label of a worker that is alive and will not leave before this transaction has ended, null if it is not: it may
-- have hung up on this very claim or birth, and what that takes must be there when it gives everything back. No lock on
-- its row: that would be written down, and a claim that finds nothing writes nothing.
create function stepfast.label_while_it_stays(k_worker uuid) returns text
language plpgsql volatile
as $$
begin
    perform pg_advisory_xact_lock_shared(hashtext('stepfast'), hashtext(k_worker::text));
    return (select w.label from stepfast.worker w where w.worker_id = k_worker and w.dead_at is null);
end
$$;

-- When a run was queued. The plan is made anew each time: one that was made when the table was empty may go through an
-- index that has the run's id in the wrong place.
create function stepfast.queued_at(k_run uuid) returns bigint
language plpgsql volatile
set plan_cache_mode = force_custom_plan
as $$
begin
    return (select r.queued_at from stepfast.run r where r.run_id = k_run);
end
$$;

-- Stores the runs `n_*` (and their tags `t_*`: tag `t_tag[j]` of run `t_of[j]`), except those that `n_wanted` rules
-- out, and those whose key was used before. A run that is stored already is refused, unless `n_again` says that an
-- earlier call broke off without an answer: then it is answered as it was the first time. Answers, run by run, with the
-- id of the run that stands, whether that is the run that was sent, its token if it was born leased, and its moment.
create function stepfast.start_runs(
    n_holder uuid,
    n_wanted boolean[],
    n_again boolean,
    n_id uuid[],
    n_tenant text[],
    n_workflow text[],
    n_version integer[],
    n_kind text[],
    n_queue text[],
    n_code text[],
    n_priority integer[],
    n_input text[],
    n_digest text[],
    n_key text[],
    n_delay bigint[],
    n_timeout bigint[],
    n_parent uuid[],
    n_parent_wait integer[],
    n_leave boolean[],
    n_lane text[],
    n_actor text[],
    n_correlation text[],
    n_causation text[],
    n_thread text[],
    n_subject text[],
    n_metadata text[],
    n_definition text[],
    t_of integer[],
    t_tag text[],
    out stands uuid[],
    out own boolean[],
    out tokens integer[],
    out moments bigint[]
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
    total integer := cardinality(n_id);
    fresh boolean[] := coalesce(n_wanted, array_fill(true, array[total]));
    born boolean[] := array_fill(false, array[total]);
    stored uuid[];
    idle text[];
    holder_label text;
    earlier record;
    keyed integer;
    added integer;
    q text;
begin
    stands := n_id;
    own := fresh;
    tokens := array_fill(null::integer, array[total]);
    moments := array_fill(moment, array[total]);

    -- In the order of the keys, so that two batches with the same keys never wait for each other in a circle.
    keyed := (select count(*) from generate_series(1, total) i where n_key[i] is not null and fresh[i]);
    if keyed > 0 then
        insert into stepfast.idempotency (tenant, command, key, digest, run_id, at)
        select n_tenant[i], 'start', n_key[i], n_digest[i], n_id[i], moment
          from generate_series(1, total) i
         where n_key[i] is not null and fresh[i]
         order by n_tenant[i] collate "C", n_key[i] collate "C", i
            on conflict do nothing;
        get diagnostics added = row_count;
        if added < keyed then
            for i in 1 .. total loop
                continue when n_key[i] is null or not fresh[i];
                select k.run_id, k.digest, k.at
                  into strict earlier
                  from stepfast.idempotency k
                 where k.tenant = n_tenant[i] and k.command = 'start' and k.key = n_key[i];
                if earlier.digest <> n_digest[i] then
                    raise exception using
                        errcode = 'SF001',
                        message = format(
                            'Key %s of tenant %s belongs to run %s, which was started with another body. '
                            'Send the body of that run again, or use another key.',
                            to_json(n_key[i]), to_json(n_tenant[i]), earlier.run_id);
                elsif earlier.run_id <> n_id[i] then
                    fresh[i] := false;
                    own[i] := false;
                    stands[i] := earlier.run_id;
                    moments[i] := earlier.at;
                end if;
            end loop;
        end if;
    end if;

    with newcomer as (
        insert into stepfast.run (
            run_id, tenant, workflow, version, kind, queue, code, priority, key, input, parent_id, parent_wait, leave,
            actor, correlation_id, causation_id, thread_id, subject, metadata, timeout_ms, definition,
            queued_at
        )
        select n_id[i], n_tenant[i], n_workflow[i], n_version[i], n_kind[i], n_queue[i], n_code[i], n_priority[i],
               n_key[i], n_input[i], n_parent[i], n_parent_wait[i], n_leave[i], n_actor[i], n_correlation[i],
               n_causation[i], n_thread[i], n_subject[i], n_metadata[i], n_timeout[i],
               n_definition[i], moment
          from generate_series(1, total) i
         where fresh[i]
            on conflict (run_id) do nothing
        returning run_id
    )
    select coalesce(array_agg(n.run_id), '{}') into stored from newcomer n;
    if cardinality(stored) < cardinality(array_positions(fresh, true)) then
        for i in 1 .. total loop
            continue when not fresh[i] or n_id[i] = any (stored);
            if n_key[i] is null and not n_again then
                raise exception using
                    errcode = 'unique_violation',
                    message = format('run %s is stored already', n_id[i]);
            end if;
            fresh[i] := false;
            own[i] := n_again;
            moments[i] := stepfast.queued_at(n_id[i]);
            if n_again then
                tokens[i] := (select t.token from stepfast.task t where t.run_id = n_id[i] and t.worker_id = n_holder);
            end if;
        end loop;
    end if;

    holder_label := stepfast.label_while_it_stays(n_holder);
    if holder_label is not null then
        idle := '{}';
        for q in select distinct u from unnest(n_queue) u loop
            perform from stepfast.task t where t.queue = q and t.state = 'ready' and not t.hold and t.crashes = 0 limit 1;
            if not found then
                idle := idle || q;
            end if;
        end loop;
        for i in 1 .. total loop
            if fresh[i] and n_delay[i] = 0 and n_queue[i] = any (idle) then
                born[i] := true;
                tokens[i] := 1;
            end if;
        end loop;
    end if;

    if cardinality(t_of) > 0 then
        insert into stepfast.run_tag (run_id, tag, tenant)
        select n_id[t_of[j]], t_tag[j], n_tenant[t_of[j]]
          from generate_series(1, cardinality(t_of)) j
         where fresh[t_of[j]]
            on conflict do nothing;
    end if;

    insert into stepfast.task (
        run_id, queue, tenant, code, place, state, due_at, deadline_at, worker_id, token, claims, lane, since_at
    )
    select n_id[i], n_queue[i], n_tenant[i], n_code[i], moment + n_delay[i] - n_priority[i] * 3600000::bigint,
           case when born[i] then 'leased' when n_delay[i] > 0 then 'waiting' else 'ready' end,
           case when n_delay[i] > 0 then moment + n_delay[i] end,
           moment + n_delay[i] + n_timeout[i],
           case when born[i] then n_holder end,
           born[i]::integer, born[i]::integer, n_lane[i], moment
      from generate_series(1, total) i
     where fresh[i];

    insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, actor, causation_id, data)
    select n_id[i], 1, n_tenant[i], 1, 'queued', moment, 0, n_actor[i], coalesce(n_causation[i], n_key[i]),
           format('{"workflow": %s, "version": %s%s}', to_json(n_workflow[i]), n_version[i],
                  ', "correlation_id": ' || to_json(n_correlation[i]))
      from generate_series(1, total) i
     where fresh[i];

    if true = any (born) then
        insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, data)
        select n_id[i], 2, n_tenant[i], 1, 'claimed', moment, 1, stepfast.claimed_data(n_holder, holder_label)
          from generate_series(1, total) i
         where born[i];
    end if;

    if exists (select from generate_series(1, total) i where n_delay[i] > 0 and fresh[i]) then
        insert into stepfast.wait (run_id, wait_id, tenant, generation, kind, name, path, count, opened_at, due_at)
        select n_id[i], 0, n_tenant[i], 1, 'delay', 'delay', '', 0, moment, moment + n_delay[i]
          from generate_series(1, total) i
         where n_delay[i] > 0 and fresh[i];
    end if;
end
$$;
