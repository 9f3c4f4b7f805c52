-- name: fill_collection
-- Fill a collection in the order of a list in JSON.
insert into collection_item (tenant, name, n, asset_id)
select :tenant, :name, given.key + 1, given.value
  from json_each(:ids) as given;

-- name: missing_assets
-- The first few of a list in JSON that are no assets of the tenant's.
select given.value
  from json_each(:ids) as given
 where not exists (
           select 1
             from asset a
            where a.tenant = :tenant
              and a.asset_id = given.value)
 order by given.key
 limit 10;

-- name: tag_asset
-- Tag an asset by a list in JSON.
insert into asset_tag (tenant, tag, asset_id)
select :tenant, given.value, :asset_id
  from json_each(:tags) as given;

-- name: upstream
-- What a version was made of, and what that was made of, the nearest first. By its assets, so that each is passed once,
-- whatever goes in circles. Cross joins, as SQLite then goes from what was reached to what is beyond, not the other way.
with recursive node (asset_id, version) as (
    select d.asset_id, d.version
      from derivation d
     where d.tenant = :tenant
       and d.asset_id = :asset_id
       and d.version = :version
     union
    select d.input_id, d.input_version
      from node n
     cross join derivation d
     where d.tenant = :tenant
       and d.asset_id = n.asset_id
       and d.version = n.version
), reached as (
    select asset_id, version
      from node
     limit :limit
)
select d.input_id, d.input_version, d.asset_id, d.version, d.wanted_id, d.run_id, d.generation, d.step, d.attempt
  from reached r
 cross join derivation d
 where d.tenant = :tenant
   and d.asset_id = r.asset_id
   and d.version = r.version
 limit :limit;

-- name: downstream
-- What was made of a version, and what was made of that, in the same way.
with recursive node (asset_id, version) as (
    select d.input_id, d.input_version
      from derivation d
     where d.tenant = :tenant
       and d.input_id = :asset_id
       and d.input_version = :version
     union
    select d.asset_id, d.version
      from node n
     cross join derivation d
     where d.tenant = :tenant
       and d.input_id = n.asset_id
       and d.input_version = n.version
), reached as (
    select asset_id, version
      from node
     limit :limit
)
select d.input_id, d.input_version, d.asset_id, d.version, d.wanted_id, d.run_id, d.generation, d.step, d.attempt
  from reached r
 cross join derivation d
 where d.tenant = :tenant
   and d.input_id = r.asset_id
   and d.input_version = r.version
 limit :limit;
