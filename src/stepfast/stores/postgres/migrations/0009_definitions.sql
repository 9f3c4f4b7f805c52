-- Definitions: workflows as data. A row is written once, with its event, and never changed. `number` is given in the
-- order of commits, so that whoever has read up to one has missed none.

create table stepfast.definition (
    number bigint not null unique,
    definition_id uuid primary key,
    tenant text collate "C" not null,
    name text collate "C" not null,
    version integer not null,
    digest text collate "C" not null,
    kind text collate "C" not null check (kind in ('template', 'graph')),
    content text not null,
    registered_at bigint not null,
    actor text collate "C",
    unique (tenant, name, version)
);

create index definition_by_tenant on stepfast.definition (tenant, number);

-- Keeps a definition, unless its tenant has one of that name and version; answers with the one that stands, whether it
-- is the one that was sent, and the newest version of the name. One after the other: the numbers must follow the commits.
create function stepfast.register(
    k_id uuid, k_tenant text, k_name text, k_version integer, k_digest text, k_kind text, k_content text, k_actor text,
    k_told text
)
returns table (
    number bigint, definition_id text, tenant text, name text, version integer, digest text, kind text, content text,
    registered_at bigint, actor text, is_new boolean, newest integer
)
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
set jit = off
set lock_timeout = '5s'
as $$
declare
    moment bigint := stepfast.now_ms();
    is_known boolean;
begin
    perform pg_advisory_xact_lock(hashtext('stepfast'), hashtext('register'));
    is_known := exists (
        select from stepfast.definition d where d.tenant = k_tenant and d.name = k_name and d.version = k_version
    );
    if not is_known then
        insert into stepfast.definition (
            definition_id, number, tenant, name, version, digest, kind, content, registered_at, actor
        )
        select k_id, 1 + coalesce(max(d.number), 0), k_tenant, k_name, k_version, k_digest, k_kind, k_content, moment,
               k_actor
          from stepfast.definition d;
        insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, actor, data)
        values (k_id, 1, k_tenant, 1, 'template_registered', moment, 0, k_actor, k_told);
    end if;
    return query
    select d.number, d.definition_id::text, d.tenant, d.name, d.version, d.digest, d.kind, d.content, d.registered_at,
           d.actor, d.definition_id = k_id,
           (select max(v.version) from stepfast.definition v where v.tenant = k_tenant and v.name = k_name)
      from stepfast.definition d
     where d.tenant = k_tenant and d.name = k_name and d.version = k_version;
end
$$;
