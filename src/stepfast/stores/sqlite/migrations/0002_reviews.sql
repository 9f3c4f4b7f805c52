-- Reviews: what people are asked, what they have answered, the tokens they may answer by; and the exception queue, which
-- triggers keep in step with its causes, in the same commit.

create table review (
    run_id text not null,
    wait_id integer not null,
    tenant text not null,
    generation integer not null,
    workflow text not null,
    step text not null,
    kind text not null,
    title text not null,
    shown text not null,
    digest text not null,
    verdicts text not null,
    value_schema text,
    assignee text,
    role text,
    quorum integer not null,
    quorum_reject integer not null,
    expires_ms integer,
    on_expiry text not null,
    escalate_to text,
    escalate_role text,
    escalations integer not null default 0,
    subject text,
    opened_at integer not null,
    due_at integer,
    state text not null default 'open' check (state in ('open', 'decided', 'expired', 'withdrawn')),
    verdict text,
    actor text,
    ended_at integer,
    primary key (run_id, wait_id),
    check ((state = 'open') = (ended_at is null))
) without rowid, strict;

create index review_open on review (tenant, run_id, wait_id) where state = 'open';
create index review_of_role on review (tenant, role, run_id, wait_id) where state = 'open' and role is not null;
create index review_of_assignee on review (tenant, assignee, run_id, wait_id) where state = 'open' and assignee is not null;
create index review_by_opened on review (tenant, opened_at);

-- What each person has said of a review: verdicts, and comments, which have none.
create table review_answer (
    run_id text not null,
    wait_id integer not null,
    n integer not null,
    tenant text not null,
    verdict text,
    value text,
    note text,
    actor text,
    at integer not null,
    primary key (run_id, wait_id, n)
) without rowid, strict;

-- Only a keyed hash of a token is known here.
create table review_token (
    run_id text not null,
    wait_id integer not null,
    hash text not null,
    tenant text not null,
    generation integer not null,
    actor text not null,
    issued_at integer not null,
    expires_at integer not null,
    used_at integer,
    primary key (run_id, wait_id, hash)
) without rowid, strict;

-- What a person should look at. `cause` names it within its run: `review:7`, `failed:1`, `blocked:1`, `step:3`.
create table exception_item (
    run_id text not null,
    cause text not null,
    tenant text not null,
    generation integer not null,
    workflow text not null,
    kind text not null,
    step text,
    title text not null,
    shape text not null default '',
    assignee text,
    opened_at integer not null,
    resolved_at integer,
    resolution text,
    actor text,
    primary key (run_id, cause)
) without rowid, strict;

create index exception_open on exception_item (tenant, run_id, cause) where resolved_at is null;
create index exception_of_kind on exception_item (tenant, kind, run_id, cause) where resolved_at is null;
create index exception_of_assignee on exception_item (tenant, assignee, run_id, cause)
 where resolved_at is null and assignee is not null;
create index exception_by_shape on exception_item (tenant, workflow, shape, run_id)
 where resolved_at is null and kind = 'failed';

create table exception_comment (
    run_id text not null,
    cause text not null,
    n integer not null,
    tenant text not null,
    actor text,
    text text not null,
    at integer not null,
    primary key (run_id, cause, n)
) without rowid, strict;

alter table dead_letter add column shape text not null default '';

create index dead_letter_by_shape on dead_letter (tenant, workflow, shape, run_id) where resolved_at is null;

-- When something was last done to a run: told from its rows, as a trigger cannot ask for the time in a file that is
-- opened by other means.
create view run_moved as
select r.run_id,
       max(coalesce((select t.since_at from task t where t.run_id = r.run_id), 0),
           coalesce((select e.at from event e where e.run_id = r.run_id order by e.seq desc limit 1), 0)) as at
  from run r;

-- However the wait for a person ends, its review has an end by then, or gets one now.
create trigger withdraw_review after delete on wait
when old.kind = 'review'
begin
    update review
       set state = 'withdrawn',
           ended_at = coalesce((select m.at from run_moved m where m.run_id = old.run_id), old.opened_at)
     where run_id = old.run_id
       and wait_id = old.wait_id
       and state = 'open';
end;

create trigger open_review_item after insert on review
begin
    insert into exception_item (run_id, cause, tenant, generation, workflow, kind, step, title, assignee, opened_at)
    values (new.run_id, 'review:' || new.wait_id, new.tenant, new.generation, new.workflow, new.kind, new.step, new.title,
            new.assignee, new.opened_at);
end;

create trigger follow_review_item after update on review
begin
    update exception_item
       set assignee = new.assignee,
           resolved_at = new.ended_at,
           resolution = coalesce(new.verdict, case when new.state = 'open' then null else new.state end),
           actor = new.actor
     where run_id = new.run_id
       and cause = 'review:' || new.wait_id;
end;

create trigger open_failed_item after insert on dead_letter
begin
    insert into exception_item (run_id, cause, tenant, generation, workflow, kind, step, title, shape, opened_at)
    values (new.run_id, 'failed:' || new.generation, new.tenant, new.generation, new.workflow, 'failed', new.step,
            new.error_type || ': ' || new.message, new.shape, new.recorded_at);
end;

create trigger resolve_failed_item after update of resolved_at on dead_letter
begin
    update exception_item
       set resolved_at = new.resolved_at, resolution = new.resolution, actor = new.actor
     where run_id = new.run_id
       and cause = 'failed:' || new.generation;
end;

create trigger open_blocked_item after insert on wait
when new.kind = 'code'
begin
    insert into exception_item (run_id, cause, tenant, generation, workflow, kind, title, opened_at)
    select new.run_id, 'blocked:' || new.generation, new.tenant, new.generation, r.workflow, 'blocked',
           'waits for code that fits: ' || new.name, new.opened_at
      from run r
     where r.run_id = new.run_id
        on conflict do update
       set opened_at = excluded.opened_at, resolved_at = null, resolution = null, actor = null;
end;

create trigger resolve_blocked_item after delete on wait
when old.kind = 'code'
begin
    update exception_item
       set resolved_at = coalesce((select m.at from run_moved m where m.run_id = old.run_id), old.opened_at),
           resolution = case when exists (select 1 from task t where t.run_id = old.run_id)
                             then 'taken up' else 'withdrawn' end
     where run_id = old.run_id
       and cause = 'blocked:' || old.generation;
end;

-- A run goes on from a failure, by a record of its own; people see it until that counts no more, or one of them resolves it.
create trigger open_step_item after insert on step
when new.kind = 'borne'
begin
    insert into exception_item (run_id, cause, tenant, generation, workflow, kind, step, title, shape, opened_at)
    select new.run_id, 'step:' || new.seq, new.tenant, new.generation, r.workflow, 'failed', new.value ->> 'step',
           new.value ->> 'title', new.value ->> 'shape', new.ended_at
      from run r
     where r.run_id = new.run_id;
end;

create trigger resolve_step_item after update of superseded_by on step
when new.kind = 'borne' and old.superseded_by is null
begin
    update exception_item
       set resolved_at = coalesce((select m.at from run_moved m where m.run_id = new.run_id), new.ended_at),
           resolution = 'replayed'
     where run_id = new.run_id
       and cause = 'step:' || new.seq
       and resolved_at is null;
end;
