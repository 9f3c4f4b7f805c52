-- name: list_definitions
-- One page of definitions, newest first; every condition is optional.
select number, definition_id, tenant, name, version, digest, kind, content, registered_at, actor
  from stepfast.definition
 where number < :before
   and (cast(:tenant as text) is null or tenant = :tenant)
   and (cast(:name as text) is null or name = :name)
   and (cast(:version as integer) is null or version = :version)
 order by number desc
 limit :limit;

-- name: definitions_after
-- Those that were registered behind a number, in order.
select number, definition_id, tenant, name, version, digest, kind, content, registered_at, actor
  from stepfast.definition
 where number > :after
 order by number
 limit :limit;

-- name: get_definition
-- The one of a tenant, a name and a version.
select number, definition_id, tenant, name, version, digest, kind, content, registered_at, actor
  from stepfast.definition
 where tenant = :tenant
   and name = :name
   and version = :version;

-- name: newest_version
-- The newest version that a tenant has of a name.
select max(version)
  from stepfast.definition
 where tenant = :tenant
   and name = :name;

-- name: insert_definition
-- A definition, numbered behind all others.
insert into stepfast.definition (
    definition_id, number, tenant, name, version, digest, kind, content, registered_at, actor
)
select :definition_id, 1 + coalesce(max(number), 0), :tenant, :name, :version, :digest, :kind, :content, :now, :actor
  from stepfast.definition;
