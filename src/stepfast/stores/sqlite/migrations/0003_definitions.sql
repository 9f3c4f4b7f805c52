-- Definitions: workflows as data. A row is written once, with its event, and never changed. `number` is given in the
-- order of commits, so that whoever has read up to one has missed none.

create table definition (
    number integer primary key,
    definition_id text not null unique,
    tenant text not null,
    name text not null,
    version integer not null,
    digest text not null,
    kind text not null check (kind in ('template', 'graph')),
    content text not null,
    registered_at integer not null,
    actor text,
    unique (tenant, name, version)
) strict;

create index definition_by_tenant on definition (tenant, number);
