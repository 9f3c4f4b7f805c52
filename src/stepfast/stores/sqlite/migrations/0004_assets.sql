-- Assets: content that outlives runs, in versions that never change; what runs have read and written of them; and what
-- steps keep for themselves. Contents are in the blob store, under `place` or the run's id.

create table asset (
    tenant text not null,
    asset_id text not null,
    newest integer not null,
    -- The number that the last asset with a fresh id in this one's stead was given.
    fresh integer not null default 1,
    primary key (tenant, asset_id)
) without rowid, strict;

create table asset_version (
    tenant text not null,
    asset_id text not null,
    version integer not null,
    media_type text not null,
    metadata text not null,
    tags text not null,
    digest text not null,
    size integer not null,
    place text not null,
    put_at integer not null,
    actor text,
    run_id text,
    generation integer,
    step text,
    attempt integer,
    inputs text not null,
    primary key (tenant, asset_id, version)
) without rowid, strict;

create index asset_version_by_place on asset_version (place, tenant);

create table asset_tag (
    tenant text not null,
    tag text not null,
    asset_id text not null,
    primary key (tenant, tag, asset_id)
) without rowid, strict;

create index asset_tag_by_asset on asset_tag (tenant, asset_id);

create table collection (
    tenant text not null,
    name text not null,
    size integer not null,
    actor text,
    changed_at integer not null,
    primary key (tenant, name)
) without rowid, strict;

create table collection_item (
    tenant text not null,
    name text not null,
    n integer not null,
    asset_id text not null,
    primary key (tenant, name, n)
) without rowid, strict;

create table lineage (
    run_id text not null,
    generation integer not null,
    step text not null,
    role text not null check (role in ('read', 'write')),
    asset_id text not null,
    version integer not null,
    tenant text not null,
    wanted_id text not null,
    at integer not null,
    attempt integer not null,
    -- The lease of the try that has read it; 0 where it counts for every try, and for what was written.
    token integer not null,
    primary key (run_id, generation, step, role, asset_id, version, wanted_id, attempt, token)
) without rowid, strict;

create index lineage_by_asset on lineage (tenant, asset_id, version, run_id);

create index lineage_by_wanted on lineage (tenant, wanted_id) where wanted_id <> asset_id;

-- The edges of lineage: what was written, and what the same try had read by then.
create table derivation (
    edge integer primary key,
    tenant text not null,
    asset_id text not null,
    version integer not null,
    input_id text not null,
    input_version integer not null,
    wanted_id text not null,
    run_id text not null,
    generation integer not null,
    step text not null,
    attempt integer not null
) strict;

create index derivation_by_asset on derivation (tenant, asset_id, version);

create index derivation_by_input on derivation (tenant, input_id, input_version);

create table artifact (
    run_id text not null,
    path text not null,
    step text not null,
    nth integer not null,
    name text not null,
    token integer not null,
    attempt integer not null,
    tenant text not null,
    generation integer not null,
    kind text not null check (kind in ('value', 'artifact', 'deleted')),
    form text not null,
    media_type text not null,
    digest text,
    size integer,
    saved_at integer not null,
    primary key (run_id, path, step, nth, name, token, attempt),
    check ((kind = 'deleted') = (digest is null))
) without rowid, strict;
