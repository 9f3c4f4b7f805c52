-- name: locked_item
-- An exception item as a command sees it.
select cause, kind, step, resolution
  from stepfast.exception_item
 where run_id = :run_id
   and cause = :cause;

-- name: assign_item
-- Somebody sees to an item from now on, or nobody in particular.
update stepfast.exception_item
   set assignee = :assignee
 where run_id = :run_id
   and cause = :cause;

-- name: resolve_item
-- Somebody has seen to an item that stands for nothing else.
update stepfast.exception_item
   set resolved_at = :now, resolution = :resolution, actor = :actor
 where run_id = :run_id
   and cause = :cause;

-- name: comment_item
-- What somebody said of an item.
insert into stepfast.exception_comment (run_id, cause, n, tenant, actor, text, at)
select i.run_id, i.cause,
       1 + (select count(*) from stepfast.exception_comment c where c.run_id = i.run_id and c.cause = i.cause),
       i.tenant, cast(:actor as text), cast(:text as text), cast(:now as bigint)
  from stepfast.exception_item i
 where i.run_id = :run_id
   and i.cause = :cause;

-- name: list_exceptions
-- One page of exception items, newest run first; every condition is optional.
select run_id, cause, tenant, generation, workflow, kind, step, title, shape, assignee, opened_at, resolved_at,
       resolution, actor
  from stepfast.exception_item
 where (run_id, cause) < (:before_run, :before_cause)
   and (cast(:tenant as text) is null or tenant = :tenant)
   and (cast(:kind as text) is null or kind = :kind)
   and (cast(:workflow as text) is null or workflow = :workflow)
   and (cast(:assignee as text) is null or assignee = :assignee)
   and (cast(:run_id as text) is null or run_id = :run_id)
   and (cast(:cause as text) is null or cause = :cause)
   and (cast(:shape as text) is null or shape = :shape)
   and (cast(:opened_after as bigint) is null or opened_at > :opened_after)
   and (cast(:unresolved as text) is null or resolved_at is null)
 order by run_id desc, cause desc
 limit :limit;

-- name: count_exceptions
-- How many exception items there are of each kind; the same conditions.
select kind, count(*)
  from stepfast.exception_item
 where true
   and (cast(:tenant as text) is null or tenant = :tenant)
   and (cast(:kind as text) is null or kind = :kind)
   and (cast(:workflow as text) is null or workflow = :workflow)
   and (cast(:assignee as text) is null or assignee = :assignee)
   and (cast(:run_id as text) is null or run_id = :run_id)
   and (cast(:shape as text) is null or shape = :shape)
   and (cast(:opened_after as bigint) is null or opened_at > :opened_after)
   and (cast(:unresolved as text) is null or resolved_at is null)
 group by kind;

-- name: group_exceptions
-- Equal open items, the largest groups first, each with the newest of its items. What no error has caused has no shape:
-- it is equal where it comes from the same step.
select kind, workflow, form, size, first_at, newest_at, run_id, cause, step, title
  from (select kind, workflow, form, run_id, cause, step, title,
               count(*) over (partition by kind, workflow, form) as size,
               min(opened_at) over (partition by kind, workflow, form) as first_at,
               max(opened_at) over (partition by kind, workflow, form) as newest_at,
               row_number() over (partition by kind, workflow, form order by run_id desc, cause desc) as nth
          from (select kind, workflow, case when shape = '' then coalesce(step, '') else shape end as form, run_id, cause,
                       step, title, opened_at
                  from stepfast.exception_item
                 where resolved_at is null
                   and (cast(:tenant as text) is null or tenant = :tenant)
                   and (cast(:kind as text) is null or kind = :kind)
                   and (cast(:workflow as text) is null or workflow = :workflow)
                   and (cast(:assignee as text) is null or assignee = :assignee)
                   and (cast(:run_id as text) is null or run_id = :run_id)
                   and (cast(:opened_after as bigint) is null or opened_at > :opened_after)
               ) formed) counted
 where nth = 1
 order by size desc, newest_at desc, kind, workflow, form
 limit :limit;

-- name: list_item_comments
-- What people have said of an item, in order; that of a review is kept with it.
select actor, text, at
  from (select actor, text, at, n
          from stepfast.exception_comment
         where run_id = :run_id
           and cause = :cause
         union all
        select actor, note, at, n
          from stepfast.review_answer
         where run_id = :run_id
           and wait_id = :wait_id
           and verdict is null) said
 order by n;
