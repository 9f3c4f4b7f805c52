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
