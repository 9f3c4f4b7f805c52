-- name: put_blob
-- Keep a content, in place of what its key had.
insert into stepfast.blob (run_id, tenant, name, content, at)
values (:run_id, :tenant, :name, :content, stepfast.now_ms())
on conflict (run_id, tenant, name) do update
   set content = excluded.content,
       at = excluded.at;

-- name: put_blob_once
-- Keep a content, unless its key has one.
insert into stepfast.blob (run_id, tenant, name, content, at)
values (:run_id, :tenant, :name, :content, stepfast.now_ms())
on conflict (run_id, tenant, name) do nothing;

-- name: get_blob
-- A content.
select content
  from stepfast.blob
 where run_id = :run_id
   and tenant = :tenant
   and name = :name;

-- name: has_blob
-- Whether there is a content; it is not read.
select 1
  from stepfast.blob
 where run_id = :run_id
   and tenant = :tenant
   and name = :name;

-- name: delete_blob
-- Remove a content, or only one that was not put again since a moment.
delete from stepfast.blob
 where run_id = :run_id
   and tenant = :tenant
   and name = :name
   and (cast(:put_before as bigint) is null or at < :put_before)
returning 1;

-- name: list_blobs
-- One page of blobs without their content, in the order of their keys.
select tenant, run_id, name, length(content) as size, at
  from stepfast.blob
 where (run_id, tenant, name) > (:after_run, :after_tenant, :after_name)
   and (cast(:tenant as text) is null or tenant = :tenant)
   and (cast(:run_id as text) is null or run_id = :run_id)
 order by run_id, tenant, name
 limit :limit;

-- name: list_mentions
-- Every reference to a blob that the rows of a run hold.
select input as text
  from stepfast.run
 where run_id = :run_id
   and tenant = :tenant
   and input like '@blob:%'
union
select input
  from stepfast.generation
 where run_id = :run_id
   and tenant = :tenant
   and input like '@blob:%'
union
select value
  from stepfast.outcome
 where run_id = :run_id
   and tenant = :tenant
   and value like '@blob:%'
union
select shown
  from stepfast.review
 where run_id = :run_id
   and tenant = :tenant
   and shown like '@blob:%'
union
select value
  from stepfast.review_answer
 where run_id = :run_id
   and tenant = :tenant
   and value like '@blob:%'
union
select value
  from stepfast.inbox
 where run_id = :run_id
   and tenant = :tenant
   and value like '@blob:%'
union
select input
  from stepfast.step
 where run_id = :run_id
   and tenant = :tenant
   and input like '@blob:%'
union
select value
  from stepfast.step
 where run_id = :run_id
   and tenant = :tenant
   and value like '@blob:%'
union
select '@blob:sha256-' || digest || ':' || size
  from stepfast.artifact
 where run_id = :run_id
   and tenant = :tenant
   and digest is not null
union
select '@blob:sha256-' || digest || ':' || size
  from stepfast.asset_version
 where place = :run_id
   and tenant = :tenant;
