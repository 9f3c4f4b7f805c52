-- How long runs are kept, what is left of those that were not, and who may delete what is never changed.

-- An empty tenant or workflow means all; without `keep_ms` runs are kept for ever.
create table retention (
    tenant text not null,
    workflow text not null,
    keep_ms integer,
    actor text,
    reason text,
    changed_at integer not null,
    primary key (tenant, workflow)
) without rowid, strict;

-- What is left of a run that was pruned: how many events it had, and the event that tells of it.
create table pruned (
    run_id text primary key,
    tenant text not null,
    last_seq integer not null,
    batch_id text not null,
    pruned_at integer not null
) without rowid, strict;

-- Runs that were pruned and may still have blobs outside of the database.
create table pruned_rest (
    run_id text primary key,
    tenant text not null
) without rowid, strict;

-- The transaction that may delete events, for as long as it does.
create table pruning (
    xact integer primary key
) strict;

create index idempotency_by_run on idempotency (run_id);
create index sink_letter_by_run on sink_letter (run_id);

-- What speaks for and against letting a run go; `held` names the first thing that speaks against it.
create view run_keeping as
select r.run_id,
       r.tenant,
       r.workflow,
       r.parent_id,
       r.parent_wait,
       -- What was written of an end cannot be moved back, unlike the row that is looked for.
       max(
           (select max(o.ended_at) from outcome o where o.run_id = r.run_id),
           coalesce((
               select max(e.at) from event e
                where e.run_id = r.run_id and e.type in ('completed', 'partial', 'failed', 'cancelled')
           ), 0)
       ) as ended_at,
       (select max(e.seq) from event e where e.run_id = r.run_id) as last_seq,
       exists (select 1 from run c where c.parent_id = r.run_id) as has_children,
       exists (
           select 1 from leaf l
            where l.run_id = r.run_id
              and l.last_seq >= (select max(e.seq) from event e where e.run_id = r.run_id)
       ) as is_sealed,
       case
           when exists (select 1 from task t where t.run_id = r.run_id)
             or not exists (select 1 from outcome o where o.run_id = r.run_id) then 'open'
           when exists (select 1 from dead_letter d where d.run_id = r.run_id and d.resolved_at is null) then 'dead_letter'
           when exists (select 1 from review v where v.run_id = r.run_id and v.state = 'open')
             or exists (select 1 from exception_item i where i.run_id = r.run_id and i.resolved_at is null)
               then 'exception'
           when exists (select 1 from outside_left x where x.run_id = r.run_id)
             or exists (select 1 from unjoined u where u.run_id = r.run_id) then 'outside'
           when exists (
                    select 1 from sink s
                     where s.cursor < (select max(e.position) from event e where e.run_id = r.run_id)
                )
             or exists (select 1 from sink s join sink_held h on h.sink = s.name and h.run_id = r.run_id)
             or exists (select 1 from sink_letter l where l.run_id = r.run_id and l.resolved_at is null) then 'sink'
           when (select max(e.seq) - count(*) from event e where e.run_id = r.run_id) is not 0
             or not exists (
                    select 1 from event e
                     where e.run_id = r.run_id and e.type in ('completed', 'partial', 'failed', 'cancelled')
                )
               then 'damaged'
       end as held
  from run r;

-- A run that is pruned takes with it all that belongs to it.
create trigger forget_run after delete on run
when exists (select 1 from pruning)
begin
    delete from wait where run_id = old.run_id;
    delete from artifact where run_id = old.run_id;
    delete from blob where run_id = old.run_id;
    delete from dead_letter where run_id = old.run_id;
    delete from event where run_id = old.run_id;
    delete from exception_comment where run_id = old.run_id;
    delete from exception_item where run_id = old.run_id;
    delete from generation where run_id = old.run_id;
    delete from idempotency where run_id = old.run_id;
    delete from inbox where run_id = old.run_id;
    delete from outcome where run_id = old.run_id;
    delete from outside_left where run_id = old.run_id;
    delete from review where run_id = old.run_id;
    delete from review_answer where run_id = old.run_id;
    delete from review_token where run_id = old.run_id;
    delete from run_tag where run_id = old.run_id;
    delete from sink_held where run_id = old.run_id;
    delete from sink_letter where run_id = old.run_id;
    delete from step where run_id = old.run_id;
    delete from unjoined where run_id = old.run_id;
end;

-- The trail is only ever added to.
create trigger refuse_event_update before update on event
begin
    select raise(abort, 'E-STORE-004: rows of event are never changed (update)');
end;

create trigger refuse_event_delete before delete on event
when not exists (select 1 from pruning)
begin
    select raise(abort, 'E-STORE-004: rows of event are never deleted; let runs go with `stepfast runs prune` (delete)');
end;

create trigger refuse_seal_update before update on seal
begin
    select raise(abort, 'E-STORE-004: rows of seal are never changed (update)');
end;

create trigger refuse_seal_delete before delete on seal
begin
    select raise(abort, 'E-STORE-004: rows of seal are never deleted (delete)');
end;

create trigger refuse_leaf_update before update on leaf
begin
    select raise(abort, 'E-STORE-004: rows of leaf are never changed (update)');
end;

create trigger refuse_leaf_delete before delete on leaf
begin
    select raise(abort, 'E-STORE-004: rows of leaf are never deleted (delete)');
end;

create trigger refuse_pruned_update before update on pruned
begin
    select raise(abort, 'E-STORE-004: rows of pruned are never changed (update)');
end;

create trigger refuse_pruned_delete before delete on pruned
begin
    select raise(abort, 'E-STORE-004: rows of pruned are never deleted (delete)');
end;
