-- Assets: content that outlives runs, in versions that never change; what runs have read and written of them; and what
-- steps keep for themselves. Contents are in the blob store, under `place` or the run's id.

create table stepfast.asset (
    tenant text collate "C" not null,
    asset_id text collate "C" not null,
    newest integer not null,
    -- The number that the last asset with a fresh id in this one's stead was given.
    fresh integer not null default 1,
    primary key (tenant, asset_id)
);

create table stepfast.asset_version (
    tenant text collate "C" not null,
    asset_id text collate "C" not null,
    version integer not null,
    media_type text collate "C" not null,
    metadata text not null,
    tags text not null,
    digest text collate "C" not null,
    size bigint not null,
    place uuid not null,
    put_at bigint not null,
    actor text collate "C",
    run_id uuid,
    generation integer,
    step text collate "C",
    attempt integer,
    inputs text not null,
    primary key (tenant, asset_id, version)
);

create index asset_version_by_place on stepfast.asset_version (place, tenant);

create table stepfast.asset_tag (
    tenant text collate "C" not null,
    tag text collate "C" not null,
    asset_id text collate "C" not null,
    primary key (tenant, tag, asset_id)
);

create index asset_tag_by_asset on stepfast.asset_tag (tenant, asset_id);

create table stepfast.collection (
    tenant text collate "C" not null,
    name text collate "C" not null,
    size integer not null,
    actor text collate "C",
    changed_at bigint not null,
    primary key (tenant, name)
);

create table stepfast.collection_item (
    tenant text collate "C" not null,
    name text collate "C" not null,
    n integer not null,
    asset_id text collate "C" not null,
    primary key (tenant, name, n)
);

create table stepfast.lineage (
    run_id uuid not null,
    generation integer not null,
    step text collate "C" not null,
    role text collate "C" not null check (role in ('read', 'write')),
    asset_id text collate "C" not null,
    version integer not null,
    tenant text collate "C" not null,
    wanted_id text collate "C" not null,
    at bigint not null,
    attempt integer not null,
    -- The lease of the try that has read it; 0 where it counts for every try, and for what was written.
    token integer not null,
    primary key (run_id, generation, step, role, asset_id, version, wanted_id, attempt, token)
);

create index lineage_by_asset on stepfast.lineage (tenant, asset_id, version, run_id);

create index lineage_by_wanted on stepfast.lineage (tenant, wanted_id) where wanted_id <> asset_id;

-- The edges of lineage: what was written, and what the same try had read by then.
create table stepfast.derivation (
    edge bigint generated always as identity primary key,
    tenant text collate "C" not null,
    asset_id text collate "C" not null,
    version integer not null,
    input_id text collate "C" not null,
    input_version integer not null,
    wanted_id text collate "C" not null,
    run_id uuid not null,
    generation integer not null,
    step text collate "C" not null,
    attempt integer not null
);

create index derivation_by_asset on stepfast.derivation (tenant, asset_id, version);

create index derivation_by_input on stepfast.derivation (tenant, input_id, input_version);

create table stepfast.artifact (
    run_id uuid not null,
    path text collate "C" not null,
    step text collate "C" not null,
    nth integer not null,
    name text collate "C" not null,
    token integer not null,
    attempt integer not null,
    tenant text collate "C" not null,
    generation integer not null,
    kind text collate "C" not null check (kind in ('value', 'artifact', 'deleted')),
    form text collate "C" not null,
    media_type text collate "C" not null,
    digest text collate "C",
    size bigint,
    saved_at bigint not null,
    primary key (run_id, path, step, nth, name, token, attempt),
    check ((kind = 'deleted') = (digest is null))
);

-- Fill a collection in the order of a list in JSON.
create function stepfast.fill_collection(whose text, called text, ids text) returns void
language sql
as $$
    insert into stepfast.collection_item (tenant, name, n, asset_id)
    select whose, called, given.n, given.asset_id
      from json_array_elements_text(ids::json) with ordinality as given (asset_id, n)
$$;

-- The first few of a list in JSON that are no assets of the tenant's.
create function stepfast.missing_assets(whose text, ids text) returns setof text
language sql
stable
as $$
    select given.asset_id
      from json_array_elements_text(ids::json) with ordinality as given (asset_id, n)
     where not exists (
               select 1
                 from stepfast.asset a
                where a.tenant = whose
                  and a.asset_id = given.asset_id)
     order by given.n
     limit 10
$$;

create function stepfast.tag_asset(whose text, which text, tags text) returns void
language sql
as $$
    insert into stepfast.asset_tag (tenant, tag, asset_id)
    select whose, given.tag, which
      from json_array_elements_text(tags::json) as given (tag)
$$;

-- What a version was made of, and what that was made of, the nearest first. By its assets, so that each is passed once,
-- whatever goes in circles; asset for asset, so that no more is read than is wanted.
create function stepfast.upstream(whose text, which text, numbered integer, most integer)
returns table (
    input_id text, input_version integer, asset_id text, version integer, wanted_id text, run_id uuid,
    generation integer, step text, attempt integer)
language sql
stable
as $$
    with recursive node (asset_id, version) as (
        select d.asset_id, d.version
          from stepfast.derivation d
         where d.tenant = whose
           and d.asset_id = which
           and d.version = numbered
         union
        select d.input_id, d.input_version
          from node n
          join stepfast.derivation d
            on d.tenant = whose
           and d.asset_id = n.asset_id
           and d.version = n.version
    ), reached as (
        select n.asset_id, n.version
          from node n
         limit most
    )
    select e.input_id, e.input_version, e.asset_id, e.version, e.wanted_id, e.run_id, e.generation, e.step, e.attempt
      from reached r
     cross join lateral (
               select d.*
                 from stepfast.derivation d
                where d.tenant = whose
                  and d.asset_id = r.asset_id
                  and d.version = r.version
                limit most) e
     limit most
$$;

-- What was made of a version, and what was made of that, in the same way.
create function stepfast.downstream(whose text, which text, numbered integer, most integer)
returns table (
    input_id text, input_version integer, asset_id text, version integer, wanted_id text, run_id uuid,
    generation integer, step text, attempt integer)
language sql
stable
as $$
    with recursive node (asset_id, version) as (
        select d.input_id, d.input_version
          from stepfast.derivation d
         where d.tenant = whose
           and d.input_id = which
           and d.input_version = numbered
         union
        select d.asset_id, d.version
          from node n
          join stepfast.derivation d
            on d.tenant = whose
           and d.input_id = n.asset_id
           and d.input_version = n.version
    ), reached as (
        select n.asset_id, n.version
          from node n
         limit most
    )
    select e.input_id, e.input_version, e.asset_id, e.version, e.wanted_id, e.run_id, e.generation, e.step, e.attempt
      from reached r
     cross join lateral (
               select d.*
                 from stepfast.derivation d
                where d.tenant = whose
                  and d.input_id = r.asset_id
                  and d.input_version = r.version
                limit most) e
     limit most
$$;
