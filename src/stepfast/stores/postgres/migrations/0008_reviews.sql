-- Reviews: what people are asked, what they have answered, the tokens they may answer by; and the exception queue, which
-- triggers keep in step with its causes, in the same commit.

create table stepfast.review (
    run_id uuid not null,
    wait_id integer not null,
    tenant text collate "C" not null,
    generation integer not null,
    workflow text collate "C" not null,
    step text collate "C" not null,
    kind text collate "C" not null,
    title text not null,
    shown text not null,
    digest text not null,
    verdicts text not null,
    value_schema text,
    assignee text collate "C",
    role text collate "C",
    quorum integer not null,
    quorum_reject integer not null,
    expires_ms bigint,
    on_expiry text not null,
    escalate_to text,
    escalate_role text,
    escalations integer not null default 0,
    subject text collate "C",
    opened_at bigint not null,
    due_at bigint,
    state text collate "C" not null default 'open' check (state in ('open', 'decided', 'expired', 'withdrawn')),
    verdict text,
    actor text collate "C",
    ended_at bigint,
    primary key (run_id, wait_id),
    check ((state = 'open') = (ended_at is null))
);

create index review_open on stepfast.review (tenant, run_id, wait_id) where state = 'open';
create index review_of_role on stepfast.review (tenant, role, run_id, wait_id) where state = 'open' and role is not null;
create index review_of_assignee on stepfast.review (tenant, assignee, run_id, wait_id) where state = 'open' and assignee is not null;
create index review_by_opened on stepfast.review (tenant, opened_at);

-- What each person has said of a review: verdicts, and comments, which have none.
create table stepfast.review_answer (
    run_id uuid not null,
    wait_id integer not null,
    n integer not null,
    tenant text collate "C" not null,
    verdict text,
    value text,
    note text,
    actor text collate "C",
    at bigint not null,
    primary key (run_id, wait_id, n)
);

-- Only a keyed hash of a token is known here.
create table stepfast.review_token (
    run_id uuid not null,
    wait_id integer not null,
    hash text collate "C" not null,
    tenant text collate "C" not null,
    generation integer not null,
    actor text collate "C" not null,
    issued_at bigint not null,
    expires_at bigint not null,
    used_at bigint,
    primary key (run_id, wait_id, hash)
);

-- What a person should look at. `cause` names it within its run: `review:7`, `failed:1`, `blocked:1`, `step:3`.
create table stepfast.exception_item (
    run_id uuid not null,
    cause text collate "C" not null,
    tenant text collate "C" not null,
    generation integer not null,
    workflow text collate "C" not null,
    kind text collate "C" not null,
    step text collate "C",
    title text not null,
    shape text collate "C" not null default '',
    assignee text collate "C",
    opened_at bigint not null,
    resolved_at bigint,
    resolution text,
    actor text collate "C",
    primary key (run_id, cause)
);

create index exception_open on stepfast.exception_item (tenant, run_id, cause) where resolved_at is null;
create index exception_of_kind on stepfast.exception_item (tenant, kind, run_id, cause) where resolved_at is null;
create index exception_of_assignee on stepfast.exception_item (tenant, assignee, run_id, cause)
 where resolved_at is null and assignee is not null;
create index exception_by_shape on stepfast.exception_item (tenant, workflow, shape, run_id)
 where resolved_at is null and kind = 'failed';

create table stepfast.exception_comment (
    run_id uuid not null,
    cause text collate "C" not null,
    n integer not null,
    tenant text collate "C" not null,
    actor text collate "C",
    text text not null,
    at bigint not null,
    primary key (run_id, cause, n)
);

alter table stepfast.dead_letter add column shape text collate "C" not null default '';

create index dead_letter_by_shape on stepfast.dead_letter (tenant, workflow, shape, run_id) where resolved_at is null;

-- However the wait for a person ends, its review has an end by then, or gets one now.
create function stepfast.withdraw_review() returns trigger
language plpgsql
as $$
begin
    update stepfast.review r
       set state = 'withdrawn', ended_at = stepfast.now_ms()
     where r.run_id = old.run_id and r.wait_id = old.wait_id and r.state = 'open';
    return null;
end
$$;

create trigger withdraw_review after delete on stepfast.wait
for each row when (old.kind = 'review') execute function stepfast.withdraw_review();

create function stepfast.open_review_item() returns trigger
language plpgsql
as $$
begin
    insert into stepfast.exception_item (
        run_id, cause, tenant, generation, workflow, kind, step, title, assignee, opened_at
    )
    values (
        new.run_id, 'review:' || new.wait_id, new.tenant, new.generation, new.workflow, new.kind, new.step, new.title,
        new.assignee, new.opened_at
    );
    return null;
end
$$;

create trigger open_review_item after insert on stepfast.review
for each row execute function stepfast.open_review_item();

create function stepfast.follow_review_item() returns trigger
language plpgsql
as $$
begin
    update stepfast.exception_item i
       set assignee = new.assignee,
           resolved_at = new.ended_at,
           resolution = coalesce(new.verdict, case when new.state = 'open' then null else new.state end),
           actor = new.actor
     where i.run_id = new.run_id and i.cause = 'review:' || new.wait_id;
    return null;
end
$$;

create trigger follow_review_item after update on stepfast.review
for each row execute function stepfast.follow_review_item();

create function stepfast.open_failed_item() returns trigger
language plpgsql
as $$
begin
    insert into stepfast.exception_item (
        run_id, cause, tenant, generation, workflow, kind, step, title, shape, opened_at
    )
    values (
        new.run_id, 'failed:' || new.generation, new.tenant, new.generation, new.workflow, 'failed', new.step,
        new.error_type || ': ' || new.message, new.shape, new.recorded_at
    );
    return null;
end
$$;

create trigger open_failed_item after insert on stepfast.dead_letter
for each row execute function stepfast.open_failed_item();

create function stepfast.resolve_failed_item() returns trigger
language plpgsql
as $$
begin
    update stepfast.exception_item i
       set resolved_at = new.resolved_at, resolution = new.resolution, actor = new.actor
     where i.run_id = new.run_id and i.cause = 'failed:' || new.generation;
    return null;
end
$$;

create trigger resolve_failed_item after update of resolved_at on stepfast.dead_letter
for each row execute function stepfast.resolve_failed_item();

create function stepfast.open_blocked_item() returns trigger
language plpgsql
as $$
begin
    insert into stepfast.exception_item (run_id, cause, tenant, generation, workflow, kind, title, opened_at)
    select new.run_id, 'blocked:' || new.generation, new.tenant, new.generation, r.workflow, 'blocked',
           'waits for code that fits: ' || new.name, new.opened_at
      from stepfast.run r
     where r.run_id = new.run_id
        on conflict (run_id, cause) do update
       set opened_at = excluded.opened_at, resolved_at = null, resolution = null, actor = null;
    return null;
end
$$;

create trigger open_blocked_item after insert on stepfast.wait
for each row when (new.kind = 'code') execute function stepfast.open_blocked_item();

create function stepfast.resolve_blocked_item() returns trigger
language plpgsql
as $$
begin
    update stepfast.exception_item i
       set resolved_at = stepfast.now_ms(),
           resolution = case when exists (select from stepfast.task t where t.run_id = old.run_id)
                             then 'taken up' else 'withdrawn' end
     where i.run_id = old.run_id and i.cause = 'blocked:' || old.generation;
    return null;
end
$$;

create trigger resolve_blocked_item after delete on stepfast.wait
for each row when (old.kind = 'code') execute function stepfast.resolve_blocked_item();

-- A run goes on from a failure, by a record of its own; people see it until that counts no more, or one of them resolves it.
create function stepfast.open_step_item() returns trigger
language plpgsql
as $$
begin
    insert into stepfast.exception_item (
        run_id, cause, tenant, generation, workflow, kind, step, title, shape, opened_at
    )
    select new.run_id, 'step:' || new.seq, new.tenant, new.generation, r.workflow, 'failed', new.value::json ->> 'step',
           new.value::json ->> 'title', new.value::json ->> 'shape', new.ended_at
      from stepfast.run r
     where r.run_id = new.run_id;
    return null;
end
$$;

create trigger open_step_item after insert on stepfast.step
for each row when (new.kind = 'borne') execute function stepfast.open_step_item();

create function stepfast.resolve_step_item() returns trigger
language plpgsql
as $$
begin
    update stepfast.exception_item i
       set resolved_at = stepfast.now_ms(), resolution = 'replayed'
     where i.run_id = new.run_id and i.cause = 'step:' || new.seq and i.resolved_at is null;
    return null;
end
$$;

create trigger resolve_step_item after update of superseded_by on stepfast.step
for each row when (new.kind = 'borne' and old.superseded_by is null) execute function stepfast.resolve_step_item();

-- An event that belongs to no run, such as that somebody showed what is no token: under the run id of zeros, numbered
-- without a gap, so one after the other.
create function stepfast.tell(p_tenant text, p_type text, p_actor text, p_data text)
returns void
language plpgsql volatile
as $$
begin
    perform pg_advisory_xact_lock(hashtext('stepfast'), hashtext('tell'));
    insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, actor, data)
    select '00000000-0000-0000-0000-000000000000',
           1 + coalesce((select max(e.seq)
                           from stepfast.event e
                          where e.run_id = '00000000-0000-0000-0000-000000000000'), 0),
           p_tenant, 1, p_type, stepfast.now_ms(), 0, p_actor, p_data;
end
$$;

-- Opens reviews that were decided on together with their waits: each is JSON, with the number of its decision.
create function stepfast.open_reviews(v_row text[], d_run uuid[], d_generation integer[], answers integer[], moment bigint)
returns void
language plpgsql volatile
set plan_cache_mode = force_custom_plan
as $$
begin
    insert into stepfast.review (
        run_id, wait_id, tenant, generation, workflow, step, kind, title, shown, digest, verdicts, value_schema,
        assignee, role, quorum, quorum_reject, expires_ms, on_expiry, escalate_to, escalate_role, subject, opened_at,
        due_at
    )
    select r.run_id, v.wait_id, r.tenant, d_generation[v.decision], r.workflow, v.step, v.kind, v.title, v.shown, v.digest,
           v.verdicts, v.schema, v.assignee, v.role, v.quorum, v.quorum_reject, v.expires_ms, v.on_expiry, v.escalate_to,
           v.escalate_role, r.subject, moment, moment + v.expires_ms
      from unnest(v_row) u(text)
     cross join lateral json_to_record(u.text::json) v (
          decision integer, wait_id integer, step text, kind text, title text, shown text, digest text, verdicts text,
          schema text, assignee text, role text, quorum integer, quorum_reject integer, expires_ms bigint,
          on_expiry text, escalate_to text, escalate_role text
     )
      join stepfast.run r on r.run_id = d_run[v.decision]
     where answers[v.decision] = 1;
end
$$;
