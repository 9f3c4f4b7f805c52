-- How long runs are kept, what is left of those that were not, and who may delete what is never changed.

-- An empty tenant or workflow means all; without `keep_ms` runs are kept for ever.
create table stepfast.retention (
    tenant text collate "C" not null,
    workflow text collate "C" not null,
    keep_ms bigint,
    actor text collate "C",
    reason text,
    changed_at bigint not null,
    primary key (tenant, workflow)
);

-- What is left of a run that was pruned: how many events it had, and the event that tells of it.
create table stepfast.pruned (
    run_id uuid primary key,
    tenant text collate "C" not null,
    last_seq integer not null,
    batch_id uuid not null,
    pruned_at bigint not null
);

-- Runs that were pruned and may still have blobs outside of the database.
create table stepfast.pruned_rest (
    run_id uuid primary key,
    tenant text collate "C" not null
);

-- The transactions that may delete events, for as long as they do.
create table stepfast.pruning (
    xact xid8 primary key
);

create index idempotency_by_run on stepfast.idempotency (run_id);
create index sink_letter_by_run on stepfast.sink_letter (run_id);

-- What speaks for and against letting a run go; `held` names the first thing that speaks against it.
create view stepfast.run_keeping as
select r.run_id,
       r.tenant,
       r.workflow,
       r.parent_id,
       r.parent_wait,
       -- What was written of an end cannot be moved back, unlike the row that is looked for.
       greatest(
           (select max(o.ended_at) from stepfast.outcome o where o.run_id = r.run_id),
           (
               select max(e.at) from stepfast.event e
                where e.run_id = r.run_id and e.type in ('completed', 'partial', 'failed', 'cancelled')
           )
       ) as ended_at,
       (select max(e.seq) from stepfast.event e where e.run_id = r.run_id) as last_seq,
       exists (select from stepfast.run c where c.parent_id = r.run_id) as has_children,
       exists (
           select from stepfast.leaf l
            where l.run_id = r.run_id
              and l.last_seq >= (select max(e.seq) from stepfast.event e where e.run_id = r.run_id)
       ) as is_sealed,
       case
           when exists (select from stepfast.task t where t.run_id = r.run_id)
             or not exists (select from stepfast.outcome o where o.run_id = r.run_id) then 'open'
           when exists (select from stepfast.dead_letter d where d.run_id = r.run_id and d.resolved_at is null)
               then 'dead_letter'
           when exists (select from stepfast.review v where v.run_id = r.run_id and v.state = 'open')
             or exists (select from stepfast.exception_item i where i.run_id = r.run_id and i.resolved_at is null)
               then 'exception'
           when exists (select from stepfast.outside_left x where x.run_id = r.run_id)
             or exists (select from stepfast.unjoined u where u.run_id = r.run_id) then 'outside'
           when exists (
                    select from stepfast.sink s
                     where s.cursor < (select max(e.position) from stepfast.event e where e.run_id = r.run_id)
                )
             or exists (
                    select from stepfast.sink s
                      join stepfast.sink_held h on h.sink = s.name and h.run_id = r.run_id
                )
             or exists (select from stepfast.sink_letter l where l.run_id = r.run_id and l.resolved_at is null)
               then 'sink'
           when (select max(e.seq) - count(*) from stepfast.event e where e.run_id = r.run_id) is distinct from 0
             or not exists (
                    select from stepfast.event e
                     where e.run_id = r.run_id and e.type in ('completed', 'partial', 'failed', 'cancelled')
                )
               then 'damaged'
       end as held
  from stepfast.run r;

-- How long a run is kept at least, by the policy for the run that began its family and by what was asked for; null: for
-- ever.
create function stepfast.keep_ms(k_run uuid, k_least bigint) returns bigint
language sql stable
as $$
    with recursive up as (
        select r.run_id, r.parent_id, r.tenant, r.workflow, 0 as height
          from stepfast.run r
         where r.run_id = k_run
        union all
        select p.run_id, p.parent_id, p.tenant, p.workflow, u.height + 1
          from up u
          join stepfast.run p on p.run_id = u.parent_id
    ), top as (
        select u.tenant, u.workflow from up u order by u.height desc limit 1
    ), policy as (
        select p.keep_ms
          from stepfast.retention p, top
         where p.tenant in (top.tenant, '')
           and p.workflow in (top.workflow, '')
         order by p.tenant desc, p.workflow desc
         limit 1
    )
    select case
               when not exists (select from policy) then k_least
               when (select p.keep_ms from policy p) is not null
                   then greatest((select p.keep_ms from policy p), coalesce(k_least, 0))
           end
$$;

-- Why a run cannot go yet, with the others that would go in the same transaction; null when it can.
create function stepfast.why_kept(k_run uuid, k_last integer, k_runs uuid[], k_tenant text, k_least bigint, k_sealing boolean)
returns text
language sql stable
as $$
    with recursive up as (
        select r.run_id, r.parent_id, 0 as height
          from stepfast.run r
         where r.run_id = k_run
        union all
        select p.run_id, p.parent_id, u.height + 1
          from up u
          join stepfast.run p on p.run_id = u.parent_id
    ), top as (
        select u.run_id from up u order by u.height desc limit 1
    ), age as (
        select stepfast.now_ms() - greatest(k.ended_at, t.ended_at) as ms
          from stepfast.run_keeping k, stepfast.run_keeping t, top
         where k.run_id = k_run and t.run_id = top.run_id
    )
    select coalesce(
        (
            select case
                       when k.tenant <> k_tenant then 'gone'
                       when k.held is not null then k.held
                       when k.last_seq <> k_last then 'changed'
                       when not k.is_sealed and (k_sealing or exists (select from stepfast.seal)) then 'unsealed'
                       when exists (select from top join stepfast.task t on t.run_id = top.run_id) then 'open'
                       when exists (
                           select from stepfast.run c where c.parent_id = k.run_id and c.run_id <> all (k_runs)
                       ) then 'children'
                       when stepfast.keep_ms(k_run, k_least) is null then 'kept'
                       when (select age.ms from age) < stepfast.keep_ms(k_run, k_least) then 'young'
                       else ''
                   end
              from stepfast.run_keeping k
             where k.run_id = k_run
        ),
        'gone'
    )
$$;

-- Deletes runs with all that belongs to them, and tells of it in the same commit; answers with why nothing was done, or
-- with nothing. Whoever calls it need not be allowed to delete anything: it sees for itself that the runs can go.
create function stepfast.prune_runs(
    k_batch uuid, k_tenant text, k_least bigint, k_sealing boolean, k_actor text, k_told text,
    k_runs uuid[], k_last integer[]
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
set jit = off
set lock_timeout = '5s'
as $$
declare
    moment bigint := stepfast.now_ms();
    refusal text;
    named text;
begin
    -- What has changed while it waited for a lock must be seen.
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'Runs are pruned at the isolation level read committed only.'
              using errcode = 'invalid_transaction_state';
    end if;
    -- Nobody lets go other runs than the event names.
    if (k_told::jsonb -> 'runs', k_told::jsonb -> 'older_than_ms') is distinct from (
        (
            select jsonb_agg(jsonb_build_array(given.run_id, given.last_seq) order by given.n)
              from unnest(k_runs, k_last) with ordinality as given (run_id, last_seq, n)
        ),
        coalesce(to_jsonb(k_least), 'null')
    ) then
        raise exception 'What is told of pruned runs is not what is asked for.'
              using errcode = 'invalid_parameter_value';
    end if;
    -- The first seal waits for those that prune without one, and these find it there from then on.
    perform pg_advisory_xact_lock_shared(hashtext('stepfast'), hashtext('first_seal'));
    perform from stepfast.run r where r.run_id = any (k_runs) order by r.run_id for update;
    select w.why into refusal
      from unnest(k_runs, k_last) as given (run_id, last_seq),
           stepfast.why_kept(given.run_id, given.last_seq, k_runs, k_tenant, k_least, k_sealing) as w (why)
     where w.why <> ''
     limit 1;
    if refusal is not null then
        return refusal;
    end if;
    insert into stepfast.pruning (xact) values (pg_current_xact_id());
    foreach named in array array[
        'wait', 'artifact', 'blob', 'dead_letter', 'event', 'exception_comment', 'exception_item', 'generation',
        'idempotency', 'inbox', 'outcome', 'outside_left', 'review', 'review_answer', 'review_token', 'run', 'run_tag',
        'sink_held', 'sink_letter', 'step', 'unjoined'
    ] loop
        execute format('delete from stepfast.%I where run_id = any ($1)', named) using k_runs;
    end loop;
    delete from stepfast.pruning p where p.xact = pg_current_xact_id();
    insert into stepfast.pruned (run_id, tenant, last_seq, batch_id, pruned_at)
    select given.run_id, k_tenant, given.last_seq, k_batch, moment
      from unnest(k_runs, k_last) as given (run_id, last_seq);
    insert into stepfast.pruned_rest (run_id, tenant) select unnest(k_runs), k_tenant;
    insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, actor, data)
    values (k_batch, 1, k_tenant, 1, 'pruned', moment, 0, k_actor, k_told);
    return null;
end
$$;

-- Sets or removes a policy, with its event; answers with what was told under this id before, if anything was. The
-- role of an engine changes policies by this alone, so that none changes untold.
create function stepfast.change_policy(
    k_id uuid, k_tenant text, k_workflow text, k_keep_ms bigint, k_is_removed boolean, k_actor text, k_reason text, k_told text
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
    moment bigint := stepfast.now_ms();
    told text;
    facts jsonb := jsonb_build_object('tenant', nullif(k_tenant, ''), 'workflow', nullif(k_workflow, ''))
        || case when k_is_removed then '{"removed": true}' else jsonb_build_object('keep_ms', k_keep_ms) end
        || case when k_reason is null then '{}' else jsonb_build_object('reason', k_reason) end;
begin
    if k_told::jsonb is distinct from facts then
        raise exception 'What is told of a retention policy is not what is asked for.'
              using errcode = 'invalid_parameter_value';
    end if;
    perform pg_advisory_xact_lock(hashtext('stepfast'), hashtext('retention'));
    select e.data into told from stepfast.event e where e.run_id = k_id and e.seq = 1;
    if found then
        return told;
    end if;
    if k_is_removed then
        delete from stepfast.retention p where p.tenant = k_tenant and p.workflow = k_workflow;
    else
        insert into stepfast.retention (tenant, workflow, keep_ms, actor, reason, changed_at)
        values (k_tenant, k_workflow, k_keep_ms, k_actor, k_reason, moment)
            on conflict (tenant, workflow) do update
           set keep_ms = excluded.keep_ms, actor = excluded.actor, reason = excluded.reason,
               changed_at = excluded.changed_at;
    end if;
    insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, actor, data)
    values (k_id, 1, k_tenant, 1, 'retention_changed', moment, 0, k_actor, k_told);
    return null;
end
$$;

-- The trail is only ever added to. Triggers for statements cost an insert nothing.
create function stepfast.refuse_change() returns trigger
language plpgsql
as $$
begin
    if tg_op = 'DELETE' and tg_table_name = 'event' then
        if exists (select from stepfast.pruning p where p.xact = pg_current_xact_id()) then
            return null;
        end if;
    end if;
    raise exception 'E-STORE-004: rows of stepfast.% are never changed or deleted (%). Let runs go with `stepfast runs prune`.',
        tg_table_name, lower(tg_op)
        using errcode = 'restrict_violation';
end
$$;

create trigger refuse_change before update or delete or truncate on stepfast.event
for each statement execute function stepfast.refuse_change();
create trigger refuse_change before update or delete or truncate on stepfast.seal
for each statement execute function stepfast.refuse_change();
create trigger refuse_change before update or delete or truncate on stepfast.leaf
for each statement execute function stepfast.refuse_change();
create trigger refuse_change before update or delete or truncate on stepfast.pruned
for each statement execute function stepfast.refuse_change();
