-- Seals prove later that events are what was written. A seal has leaves, one for each run that it has events of.
create table stepfast.seal (
    number integer primary key,
    after bigint not null,
    upto bigint not null,
    events integer not null,
    leaves integer not null,
    root text not null,
    previous text not null,
    sealed_at bigint not null,
    key text not null,
    signature text not null
);

create table stepfast.leaf (
    number integer not null,
    n integer not null,
    run_id uuid not null,
    tenant text collate "C" not null,
    first_seq integer not null,
    last_seq integer not null,
    digest text not null,
    primary key (number, n)
);

create index leaf_by_run on stepfast.leaf (run_id, first_seq);

-- Stores a seal with its leaves; false when one of its number is there already.
create function stepfast.put_seal(
    k_number integer, k_after bigint, k_upto bigint, k_events integer, k_leaves integer, k_root text, k_previous text,
    k_sealed_at bigint, k_key text, k_signature text,
    l_run uuid[], l_tenant text[], l_first integer[], l_last integer[], l_digest text[]
) returns boolean
language plpgsql
as $$
begin
    -- Before there is a seal runs are pruned without one: what has gone since it was read must not be in the first.
    if k_number = 1 then
        perform pg_advisory_xact_lock(hashtext('stepfast'), hashtext('first_seal'));
        if exists (select from stepfast.pruned p where p.run_id = any (l_run)) then
            return false;
        end if;
    end if;
    insert into stepfast.seal (number, after, upto, events, leaves, root, previous, sealed_at, key, signature)
    values (k_number, k_after, k_upto, k_events, k_leaves, k_root, k_previous, k_sealed_at, k_key, k_signature)
        on conflict do nothing;
    if not found then
        return false;
    end if;
    insert into stepfast.leaf (number, n, run_id, tenant, first_seq, last_seq, digest)
    select k_number, i, l_run[i], l_tenant[i], l_first[i], l_last[i], l_digest[i]
      from generate_series(1, cardinality(l_run)) i;
    return true;
end
$$;

-- How far a sink has got: what stands at or below its cursor was delivered, waits with its run, or is a dead letter.
create table stepfast.sink (
    name text not null primary key,
    cursor bigint not null,
    publisher text,
    token integer not null,
    leased_until bigint not null,
    tries integer not null,
    due_at bigint not null,
    error text
);

-- Runs whose events wait from one on, because the sink did not take that one.
create table stepfast.sink_held (
    sink text not null,
    run_id uuid not null,
    seq integer not null,
    tries integer not null,
    due_at bigint not null,
    error text not null,
    primary key (sink, run_id)
);

-- Events that a sink did not take, however often they were offered.
create table stepfast.sink_letter (
    sink text not null,
    position bigint not null,
    run_id uuid not null,
    seq integer not null,
    tenant text not null,
    type text not null,
    tries integer not null,
    error text not null,
    recorded_at bigint not null,
    replay_at bigint,
    resolved_at bigint,
    primary key (sink, position)
);

create index sink_letter_to_replay on stepfast.sink_letter (sink, position) where replay_at is not null;

-- Whoever writes an event holds this lock from before it takes a position until its commit can be seen by all.
create view stepfast.event_writer as
select l.virtualtransaction, l.pid
  from pg_locks l
 where l.locktype = 'relation'
   and l.database = (select d.oid from pg_database d where d.datname = current_database())
   and l.relation = 'stepfast.event'::regclass
   and l.mode = 'RowExclusiveLock';

-- A position below which nothing comes any more, with as few events above it as can be. What was taken of the sequence
-- before nobody wrote is settled. Else whoever wrote began when pg_stat_activity says, and stands above all that was
-- written by then: the first that is missing there may be theirs. Commits take moments, so that what is told to be a
-- minute older was written by then; a beginning that another role may not see is taken to be a minute ago.
create function stepfast.stable_position() returns bigint
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
declare
    newest bigint := coalesce(pg_sequence_last_value('stepfast.event_position'::regclass), 0);
    span bigint := (
        select max(coalesce(extract(epoch from clock_timestamp() - a.xact_start), 60))
          from stepfast.event_writer w
          left join pg_stat_activity a on a.pid = w.pid
    ) * 1000;
    oldest bigint;
begin
    if span is null then
        return newest;
    end if;
    oldest := coalesce((
        select e.position
          from stepfast.event e
         where e.at < stepfast.now_ms() - span - 60000
           and e.position <= newest
         order by e.position desc
         limit 1
    ), 0);
    return (
        select coalesce(min(w.before) filter (where w.position > w.before + 1), max(w.position), oldest)
          from (
              select e.position, lag(e.position, 1, oldest) over (order by e.position) as before
                from stepfast.event e
               where e.position > oldest
                 and e.position <= newest
          ) w
    );
end
$$;

-- Leases a sink to a publisher, made on the way if it is new; no row while another publisher has it. The token of a new
-- one is none that whoever had one of this name that was removed may still go by.
create function stepfast.take_sink(k_name text, k_publisher text, k_lease_ms bigint, k_from_start boolean)
returns table (token integer, cursor bigint, tries integer, due_at bigint, replays boolean)
language plpgsql
as $$
declare
    moment bigint := stepfast.now_ms();
begin
    insert into stepfast.sink (name, cursor, token, leased_until, tries, due_at)
    select k_name, case when k_from_start then 0 else stepfast.stable_position() end,
           floor(random() * 1000000000)::integer, 0, 0, 0
     where not exists (select from stepfast.sink s where s.name = k_name)
        on conflict do nothing;
    return query
    update stepfast.sink s
       set publisher = k_publisher,
           leased_until = moment + k_lease_ms,
           token = s.token + case when s.publisher is distinct from k_publisher or s.leased_until <= moment then 1 else 0 end
     where s.name = k_name
       and (s.publisher = k_publisher or s.leased_until <= moment)
    returning s.token, s.cursor, s.tries, s.due_at,
              exists (select from stepfast.sink_letter l where l.sink = k_name and l.replay_at is not null);
end
$$;

-- Stores what a publisher has done; false when another has taken the sink meanwhile.
create function stepfast.advance_sink(
    k_name text, k_token integer, k_lease_ms bigint, k_cursor bigint, k_tries integer, k_due_at bigint, k_error text,
    h_run uuid[], h_seq integer[], h_tries integer[], h_due bigint[], h_error text[],
    k_freed uuid[],
    l_position bigint[], l_run uuid[], l_seq integer[], l_tenant text[], l_type text[], l_tries integer[], l_error text[],
    k_resolved bigint[]
) returns boolean
language plpgsql
as $$
declare
    moment bigint := stepfast.now_ms();
begin
    update stepfast.sink s
       set cursor = k_cursor, tries = k_tries, due_at = k_due_at, error = k_error, leased_until = moment + k_lease_ms
     where s.name = k_name and s.token = k_token;
    if not found then
        return false;
    end if;
    insert into stepfast.sink_held (sink, run_id, seq, tries, due_at, error)
    select k_name, h_run[i], h_seq[i], h_tries[i], h_due[i], h_error[i] from generate_series(1, cardinality(h_run)) i
        on conflict (sink, run_id) do update
       set seq = excluded.seq, tries = excluded.tries, due_at = excluded.due_at, error = excluded.error;
    delete from stepfast.sink_held h where h.sink = k_name and h.run_id = any (k_freed);
    insert into stepfast.sink_letter (sink, position, run_id, seq, tenant, type, tries, error, recorded_at)
    select k_name, l_position[i], l_run[i], l_seq[i], l_tenant[i], l_type[i], l_tries[i], l_error[i], moment
      from generate_series(1, cardinality(l_position)) i
        on conflict (sink, position) do update
       set tries = excluded.tries, error = excluded.error, replay_at = null;
    update stepfast.sink_letter l
       set resolved_at = moment, replay_at = null
     where l.sink = k_name and l.position = any (k_resolved);
    return true;
end
$$;

-- Forgets a sink with all that it has not had, and tells of it; answers with the publisher that has it, if one has, and
-- then nothing has changed.
create function stepfast.remove_sink(k_id uuid, k_name text, k_actor text, k_reason text) returns text
language plpgsql
set lock_timeout = '5s'
as $$
declare
    moment bigint := stepfast.now_ms();
    mine record;
    letters bigint;
begin
    select s.publisher, s.leased_until, s.cursor into mine from stepfast.sink s where s.name = k_name for update;
    if not found then
        return null;
    end if;
    if mine.publisher is not null and mine.leased_until > moment then
        return mine.publisher;
    end if;
    letters := (select count(*) from stepfast.sink_letter l where l.sink = k_name and l.resolved_at is null);
    delete from stepfast.sink_held h where h.sink = k_name;
    delete from stepfast.sink_letter l where l.sink = k_name;
    delete from stepfast.sink s where s.name = k_name;
    insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, actor, data)
    values (k_id, 1, '', 1, 'sink_removed', moment, 0, k_actor,
            format('{"sink": %s, "cursor": %s, "dead_letters": %s%s}', to_json(k_name), mine.cursor, letters,
                   ', "reason": ' || to_json(k_reason)));
    return null;
end
$$;

-- Has dead letters delivered once more, those at some positions or the first of all; how many.
create function stepfast.replay_letters(k_name text, k_positions bigint[], k_limit integer) returns integer
language sql
as $$
    with wanted as (
        select l.position
          from stepfast.sink_letter l
         where l.sink = k_name and l.resolved_at is null and (k_positions is null or l.position = any (k_positions))
         order by l.position
         limit k_limit
    ), marked as (
        update stepfast.sink_letter l
           set replay_at = stepfast.now_ms()
          from wanted w
         where l.sink = k_name and l.position = w.position
        returning 1
    )
    select count(*)::integer from marked
$$;

-- Roles that use the schema without owning it: engines, which add to the trail and cannot change it, and readers.
create table stepfast.grantee (
    name text primary key,
    kind text not null check (kind in ('engine', 'reader'))
);

-- What a kind of role may do with a table.
create function stepfast.rights_on(k_table text, k_is_view boolean, k_kind text) returns text
language sql immutable
as $$
    select case
        when k_kind = 'reader' or k_is_view or k_table in ('migration', 'grantee', 'pruned', 'pruning', 'retention')
            then 'select'
        when k_table in ('event', 'seal', 'leaf') then 'select, insert'
        else 'select, insert, update, delete'
    end
$$;

-- Gives every role that was named the rights of its kind on all that is there now, and takes from it what it has more.
create function stepfast.grant_rights() returns void
language plpgsql
as $$
declare
    g record;
    o record;
begin
    if not exists (select from stepfast.grantee) then
        return;
    end if;
    revoke insert, update, delete, truncate on stepfast.event, stepfast.seal, stepfast.leaf from public;
    revoke execute on all functions in schema stepfast from public;
    -- A role of a dump may be missing on the server that it was restored to.
    for g in select n.name, n.kind from stepfast.grantee n join pg_roles r on r.rolname = n.name loop
        execute format('revoke all on schema stepfast from %1$I;
                        revoke all on all tables in schema stepfast from %1$I;
                        revoke all on all sequences in schema stepfast from %1$I;
                        revoke all on all functions in schema stepfast from %1$I;
                        grant usage on schema stepfast to %1$I;
                        grant select on all sequences in schema stepfast to %1$I;', g.name);
        if g.kind = 'engine' then
            execute format('grant usage on all sequences in schema stepfast to %1$I;
                            grant execute on all functions in schema stepfast to %1$I;', g.name);
        end if;
        for o in select c.oid::regclass as known_as, stepfast.rights_on(c.relname, c.relkind = 'v', g.kind) as rights
                   from pg_class c
                  where c.relnamespace = 'stepfast'::regnamespace
                    and c.relkind in ('r', 'p', 'v')
        loop
            execute format('grant %s on %s to %I', o.rights, o.known_as, g.name);
        end loop;
        -- What runs with the owner's rights would let a reader write.
        for o in select p.oid::regprocedure as known_as
                   from pg_proc p
                  where p.pronamespace = 'stepfast'::regnamespace
                    and g.kind = 'reader'
                    and not p.prosecdef
        loop
            execute format('grant execute on function %s to %I', o.known_as, g.name);
        end loop;
    end loop;
end
$$;

-- Lets a role use the schema, from now on and after later migrations.
create function stepfast.grant_role(k_name text, k_kind text) returns void
language plpgsql
as $$
declare
    owner oid := (select c.relowner from pg_class c where c.oid = 'stepfast.event'::regclass);
begin
    if not exists (select from pg_roles r where r.rolname = k_name) then
        raise exception 'Role "%" does not exist on this server. Make it with `create role ... login`.', k_name
              using errcode = 'SF002';
    end if;
    if pg_has_role(k_name, owner, 'member') then
        raise exception 'Role "%" owns the schema, or may act as its owner, and can change events whatever is granted.',
              k_name using errcode = 'SF002';
    end if;
    insert into stepfast.grantee (name, kind) values (k_name, k_kind)
        on conflict (name) do update set kind = excluded.kind;
    perform stepfast.grant_rights();
    if has_table_privilege(k_name, 'stepfast.event', 'update, delete, truncate, trigger') then
        raise exception 'Role "%" can change events by a role that it is a member of. End that membership first.',
              k_name using errcode = 'SF002';
    end if;
end
$$;
