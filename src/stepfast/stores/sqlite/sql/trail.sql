-- name: insert_seal
-- A seal, unless one of its number is there.
insert into seal (number, after, upto, events, leaves, root, previous, sealed_at, key, signature)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict do nothing;

-- name: insert_leaf
-- What a seal has of one run.
insert into leaf (number, n, run_id, tenant, first_seq, last_seq, digest)
values (?, ?, ?, ?, ?, ?, ?);

-- name: is_pruned
-- Whether a run was pruned.
select 1
  from pruned
 where run_id = ?;
