-- name: list_left
-- Outside work that is to be stopped.
select run_id, wait_id, asking
  from stepfast.outside_left
 order by run_id, wait_id
 limit :limit;

-- name: forget_left
-- What stops it is on its way.
delete from stepfast.outside_left
 where run_id = :run_id
   and wait_id = :wait_id;
