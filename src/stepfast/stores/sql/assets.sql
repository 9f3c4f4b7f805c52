-- name: held_by
-- Whether a run is still its holder's.
select 1
  from stepfast.task
 where run_id = :run_id
   and token = :token
   and worker_id = :worker_id
   and state = 'leased';

-- name: use_asset_key
-- Take a key; whoever takes it at the same time waits for the answer.
insert into stepfast.idempotency (tenant, command, key, digest, run_id, answer, at)
values (:tenant, 'put_asset', :key, :digest, :place, null, stepfast.now_ms())
on conflict (tenant, command, key) do nothing
returning 1;

-- name: asset_key_used
-- What a key was used for before, and what was answered.
select digest, answer
  from stepfast.idempotency
 where tenant = :tenant
   and command = 'put_asset'
   and key = :key;

-- name: answer_asset_key
-- What a key is answered with from now on.
update stepfast.idempotency
   set answer = :answer
 where tenant = :tenant
   and command = 'put_asset'
   and key = :key;

-- name: hold_asset
-- Take an asset, new or not, so that its versions are counted by one at a time; the newest, 0 where it is new.
insert into stepfast.asset as a (tenant, asset_id, newest)
values (:tenant, :asset_id, 0)
on conflict (tenant, asset_id) do update
   set newest = a.newest
returning newest;

-- name: new_asset
-- Take an asset if it is new.
insert into stepfast.asset (tenant, asset_id, newest)
values (:tenant, :asset_id, 0)
on conflict (tenant, asset_id) do nothing
returning 1;

-- name: count_fresh
-- The number of the next asset with a fresh id in this one's stead.
update stepfast.asset
   set fresh = fresh + 1
 where tenant = :tenant
   and asset_id = :asset_id
returning fresh;

-- name: add_version
-- A version, which never changes from here on.
insert into stepfast.asset_version (tenant, asset_id, version, media_type, metadata, tags, digest, size, place, put_at,
                                    actor, run_id, generation, step, attempt, inputs)
values (:tenant, :asset_id, :version, :media_type, :metadata, :tags, :digest, :size, :place, :put_at, :actor, :run_id,
        :generation, :step, :attempt, :inputs);

-- name: set_newest
-- The version that is meant from here on where none is named.
update stepfast.asset
   set newest = :version
 where tenant = :tenant
   and asset_id = :asset_id;

-- name: untag_asset
-- Make room for the tags of another version.
delete from stepfast.asset_tag
 where tenant = :tenant
   and asset_id = :asset_id;

-- name: moment
-- The moment of a transaction.
select stepfast.now_ms();

-- name: get_asset
-- One version of an asset.
select asset_id, version, tenant, media_type, metadata, tags, digest, size, place, put_at, actor, run_id, generation,
       step, attempt, inputs
  from stepfast.asset_version
 where tenant = :tenant
   and asset_id = :asset_id
   and version = :version;

-- name: get_newest
-- The newest version of an asset.
select v.asset_id, v.version, v.tenant, v.media_type, v.metadata, v.tags, v.digest, v.size, v.place, v.put_at, v.actor,
       v.run_id, v.generation, v.step, v.attempt, v.inputs
  from stepfast.asset a
  join stepfast.asset_version v
    on v.tenant = a.tenant
   and v.asset_id = a.asset_id
   and v.version = a.newest
 where a.tenant = :tenant
   and a.asset_id = :asset_id;

-- name: list_assets
-- One page of a tenant's assets in their newest versions, by id.
select v.asset_id, v.version, v.tenant, v.media_type, v.metadata, v.tags, v.digest, v.size, v.place, v.put_at, v.actor,
       v.run_id, v.generation, v.step, v.attempt, v.inputs
  from stepfast.asset a
  join stepfast.asset_version v
    on v.tenant = a.tenant
   and v.asset_id = a.asset_id
   and v.version = a.newest
 where a.tenant = :tenant
   and a.asset_id > :after
   and (cast(:media_type as text) is null or v.media_type = :media_type)
   and (cast(:media_kind as text) is null or substr(v.media_type, 1, length(cast(:media_kind as text))) = :media_kind)
 order by a.asset_id
 limit :limit;

-- name: list_tagged
-- The same of those that have a tag.
select v.asset_id, v.version, v.tenant, v.media_type, v.metadata, v.tags, v.digest, v.size, v.place, v.put_at, v.actor,
       v.run_id, v.generation, v.step, v.attempt, v.inputs
  from stepfast.asset_tag t
  join stepfast.asset a
    on a.tenant = t.tenant
   and a.asset_id = t.asset_id
  join stepfast.asset_version v
    on v.tenant = a.tenant
   and v.asset_id = a.asset_id
   and v.version = a.newest
 where t.tenant = :tenant
   and t.tag = :tag
   and t.asset_id > :after
   and (cast(:media_type as text) is null or v.media_type = :media_type)
   and (cast(:media_kind as text) is null or substr(v.media_type, 1, length(cast(:media_kind as text))) = :media_kind)
 order by t.asset_id
 limit :limit;

-- name: set_collection
-- Take a collection, new or not, so that it is filled by one at a time.
insert into stepfast.collection as c (tenant, name, size, actor, changed_at)
values (:tenant, :name, :size, :actor, stepfast.now_ms())
on conflict (tenant, name) do update
   set size = excluded.size,
       actor = excluded.actor,
       changed_at = excluded.changed_at;

-- name: empty_collection
-- Make room for what a collection is to hold.
delete from stepfast.collection_item
 where tenant = :tenant
   and name = :name;

-- name: get_collection
-- How many a collection holds.
select size
  from stepfast.collection
 where tenant = :tenant
   and name = :name;

-- name: list_collected
-- What a collection holds, each in its newest version, in order.
select v.asset_id, v.version, v.tenant, v.media_type, v.metadata, v.tags, v.digest, v.size, v.place, v.put_at, v.actor,
       v.run_id, v.generation, v.step, v.attempt, v.inputs
  from stepfast.collection_item i
  join stepfast.asset a
    on a.tenant = i.tenant
   and a.asset_id = i.asset_id
  join stepfast.asset_version v
    on v.tenant = a.tenant
   and v.asset_id = a.asset_id
   and v.version = a.newest
 where i.tenant = :tenant
   and i.name = :name
 order by i.n;

-- name: add_lineage
-- What a step has read or written, once.
insert into stepfast.lineage (run_id, generation, step, role, asset_id, version, tenant, wanted_id, at, attempt, token)
values (:run_id, :generation, :step, :role, :asset_id, :version, :tenant, :wanted_id, stepfast.now_ms(), :attempt,
        :token)
on conflict (run_id, generation, step, role, asset_id, version, wanted_id, attempt, token) do nothing
returning 1;

-- name: drop_lineage
-- Make room for what a step is given to read in the end; what its own tries have read stays.
delete from stepfast.lineage
 where run_id = :run_id
   and tenant = :tenant
   and generation = :generation
   and step = :step
   and role = :role
   and token = 0;

-- name: inputs_of
-- What one try of a step has read by now; without a token the last try of its attempt is meant.
select distinct asset_id, version
  from stepfast.lineage
 where run_id = :run_id
   and tenant = :tenant
   and generation = :generation
   and step = :step
   and role = 'read'
   and (token = 0
        or (attempt = :attempt
            and token = coalesce(cast(:token as integer),
                                 (select max(l.token)
                                    from stepfast.lineage l
                                   where l.run_id = :run_id
                                     and l.tenant = :tenant
                                     and l.generation = :generation
                                     and l.step = :step
                                     and l.role = 'read'
                                     and l.attempt = :attempt))))
 order by asset_id, version;

-- name: add_derivations
-- What was written was made of what the same try had read by then.
insert into stepfast.derivation (tenant, asset_id, version, input_id, input_version, wanted_id, run_id, generation,
                                 step, attempt)
select distinct tenant, :asset_id, cast(:version as integer), asset_id, version, :wanted_id, run_id, generation, step,
       cast(:attempt as integer)
  from stepfast.lineage
 where run_id = :run_id
   and tenant = :tenant
   and generation = :generation
   and step = :step
   and role = 'read'
   and (token = 0
        or (attempt = :attempt
            and token = coalesce(cast(:token as integer),
                                 (select max(l.token)
                                    from stepfast.lineage l
                                   where l.run_id = :run_id
                                     and l.tenant = :tenant
                                     and l.generation = :generation
                                     and l.step = :step
                                     and l.role = 'read'
                                     and l.attempt = :attempt))));

-- name: add_derivation
-- The same of something that was told to be among what it was made of.
insert into stepfast.derivation (tenant, asset_id, version, input_id, input_version, wanted_id, run_id, generation,
                                 step, attempt)
values (:tenant, :asset_id, :version, :input_id, :input_version, :wanted_id, :run_id, :generation, :step, :attempt);

-- name: last_try
-- The generation, the attempt and the lease of the record that counts of a step.
select generation, attempt, token
  from stepfast.step
 where run_id = :run_id
   and tenant = :tenant
   and superseded_by is null
   and path = :path
   and name = :step
   and count = :nth
 order by seq desc
 limit 1;

-- name: has_read
-- Whether a step has read a version, in whichever of its tries.
select 1
  from stepfast.lineage
 where run_id = :run_id
   and generation = :generation
   and step = :step
   and role = 'read'
   and asset_id = :asset_id
   and version = :version
   and tenant = :tenant
 limit 1;

-- name: list_lineage
-- Who has read and written what, oldest run first; of an asset also what was written in its stead. Tries of one attempt
-- are one.
select run_id, generation, step, role, asset_id, version, wanted_id, min(at), attempt
  from stepfast.lineage
 where tenant = :tenant
   and (cast(:run_id as text) is null or run_id = :run_id)
   and (cast(:generation as integer) is null or generation = :generation)
   and (cast(:asset_id as text) is null or (asset_id = :asset_id or (wanted_id = :instead and wanted_id <> asset_id)))
   and (cast(:version as integer) is null or version = :version)
 group by run_id, generation, step, role, asset_id, version, wanted_id, attempt
 order by run_id, generation, min(at), step, role, asset_id, version, attempt
 limit :limit;

-- name: keep_artifact
-- Keep something of a step, in place of what the same attempt had under that name.
insert into stepfast.artifact as a (run_id, path, step, nth, name, token, attempt, tenant, generation, kind, form,
                                    media_type, digest, size, saved_at)
values (:run_id, :path, :step, :nth, :name, :token, :attempt, :tenant, :generation, :kind, :form, :media_type, :digest,
        :size, stepfast.now_ms())
on conflict (run_id, path, step, nth, name, token, attempt) do update
   set kind = excluded.kind,
       form = excluded.form,
       media_type = excluded.media_type,
       digest = excluded.digest,
       size = excluded.size,
       saved_at = excluded.saved_at;

-- name: kept_artifacts
-- What a step finds in its storage: the newest of each name in one generation.
select run_id, path, step, nth, name, kind, form, media_type, digest, size, generation, attempt, saved_at, 0
  from (select a.*, row_number() over (partition by name order by token desc, attempt desc) as place
          from stepfast.artifact a
         where run_id = :run_id
           and tenant = :tenant
           and path = :path
           and step = :step
           and nth = :nth
           and generation = :generation
           and (cast(:name as text) is null or name = :name)
       ) ranked
 where place = 1
   and kind <> 'deleted'
 order by name;

-- name: list_artifacts
-- What the steps of a run have kept; superseded is what a later attempt has under the same name, and what was kept by a
-- call that a later generation has made anew.
select run_id, path, step, nth, name, kind, form, media_type, digest, size, generation, attempt, saved_at, superseded
  from (select a.*,
               case when row_number() over (partition by path, step, nth, name order by token desc, attempt desc) > 1
                      or exists (select 1
                                   from stepfast.step s
                                  where s.run_id = a.run_id
                                    and s.path = a.path
                                    and s.name = a.step
                                    and s.count = a.nth
                                    and s.superseded_by > a.generation)
                    then 1 else 0 end as superseded
          from stepfast.artifact a
         where run_id = :run_id
           and tenant = :tenant
       ) ranked
 where kind <> 'deleted'
   and (cast(:only_kind as text) is null or kind = :only_kind)
   and (cast(:name as text) is null or name = :name)
   and (cast(:current as text) is null or superseded = 0)
 order by path, step, nth, name, token desc, attempt desc
 limit :limit;
