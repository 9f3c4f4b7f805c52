-- The durable core: every table of the first day. Rules: keys begin with run_id, no foreign keys, no unique index
-- without run_id, every row carries its tenant, payloads are opaque text, moments are integer milliseconds. Text that
-- is compared has the collation "C": quick, the same on every machine, and no upgrade of a C library breaks an index.

-- The one clock; tests replace it.
create function stepfast.now_ms() returns bigint
language sql volatile
as $$ select (extract(epoch from clock_timestamp()) * 1000)::bigint $$;

create table stepfast.run (
    run_id uuid primary key,
    tenant text collate "C" not null,
    workflow text collate "C" not null,
    version integer not null,
    kind text collate "C" not null,
    queue text collate "C" not null,
    code text collate "C" not null,
    priority integer not null,
    key text collate "C",
    input text not null,
    parent_id uuid,
    parent_wait integer,
    leave boolean not null default false,
    actor text collate "C",
    correlation_id text collate "C",
    causation_id text collate "C",
    thread_id text collate "C",
    subject text collate "C",
    metadata text,
    timeout_ms bigint,
    definition text collate "C",
    queued_at bigint not null
);

create index run_by_tenant on stepfast.run (tenant, run_id);
create index run_by_workflow on stepfast.run (tenant, workflow, version, run_id);
create index run_by_queued on stepfast.run (tenant, queued_at);
create index run_by_parent on stepfast.run (parent_id, parent_wait, run_id) where parent_id is not null;
create index run_by_actor on stepfast.run (tenant, actor, run_id) where actor is not null;
create index run_by_correlation on stepfast.run (tenant, correlation_id, run_id) where correlation_id is not null;
create index run_by_causation on stepfast.run (tenant, causation_id, run_id) where causation_id is not null;
create index run_by_thread on stepfast.run (tenant, thread_id, run_id) where thread_id is not null;
create index run_by_subject on stepfast.run (tenant, subject, run_id) where subject is not null;

create table stepfast.run_tag (
    run_id uuid not null,
    tag text collate "C" not null,
    tenant text collate "C" not null,
    primary key (run_id, tag)
);

create index run_tag_by_tag on stepfast.run_tag (tenant, tag, run_id);

-- A later life of a run: what it starts with instead of what `run` holds.
create table stepfast.generation (
    run_id uuid not null,
    generation integer not null,
    tenant text collate "C" not null,
    version integer not null,
    code text collate "C" not null,
    definition text collate "C",
    input text not null,
    cause text collate "C" not null,
    actor text collate "C",
    reason text,
    opened_at bigint not null,
    primary key (run_id, generation)
);

create table stepfast.outcome (
    run_id uuid not null,
    generation integer not null,
    tenant text collate "C" not null,
    state text collate "C" not null,
    value text,
    error text,
    seq integer not null,
    token integer not null,
    ended_at bigint not null,
    primary key (run_id, generation)
);

create index outcome_by_state on stepfast.outcome (tenant, state, ended_at);

-- One narrow, hot row for every run that has not ended. Half of each page is left free, so that a new version of a row
-- finds room beside the old one, and vacuum comes often, since a row lives for a few changes only.
create table stepfast.task (
    run_id uuid primary key,
    queue text collate "C" not null,
    tenant text collate "C" not null,
    code text collate "C" not null,
    place bigint not null,
    state text collate "C" not null check (state in ('ready', 'leased', 'waiting')),
    generation integer not null default 1,
    due_at bigint,
    deadline_at bigint,
    hold boolean not null default false,
    wakes integer not null default 0,
    worker_id uuid,
    token integer not null default 0,
    claims integer not null default 0,
    crashes integer not null default 0,
    strikes integer not null default 0,
    tries integer not null default 0,
    lane text collate "C",
    since_at bigint not null,
    check ((state = 'leased') = (worker_id is not null))
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

-- Code before tenant: a worker walks the tenants of each code it has, and never meets the codes it lacks.
create index task_ready on stepfast.task (queue, code, tenant, place, run_id)
 where state = 'ready' and not hold and crashes = 0;
create index task_suspect on stepfast.task (queue, crashes, place, run_id)
 where state = 'ready' and not hold and crashes > 0;
create index task_due on stepfast.task (queue, due_at, run_id) where state = 'waiting' and due_at is not null and not hold;
create index task_held on stepfast.task (worker_id, run_id) where state = 'leased';
-- The holder of a leased run sees to its deadline.
create index task_deadline on stepfast.task (deadline_at, run_id)
 where deadline_at is not null and state <> 'leased';

create table stepfast.wait (
    run_id uuid not null,
    wait_id integer not null,
    tenant text collate "C" not null,
    generation integer not null,
    kind text collate "C" not null,
    name text collate "C" not null,
    path text collate "C" not null,
    count integer not null,
    opened_at bigint not null,
    due_at bigint,
    need integer not null default 1,
    spare integer not null default 0,
    total integer not null default 1,
    got integer not null default 0,
    failed integer not null default 0,
    primary key (run_id, wait_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

create index wait_for_code on stepfast.wait (run_id) where kind = 'code';

-- Groups of children that nobody will join: upkeep cancels those of them that have not ended.
create table stepfast.unjoined (
    run_id uuid not null,
    wait_id integer not null,
    tenant text collate "C" not null,
    primary key (run_id, wait_id)
);

create table stepfast.inbox (
    run_id uuid not null,
    n integer not null,
    tenant text collate "C" not null,
    kind text collate "C" not null,
    name text collate "C" not null,
    value text,
    actor text collate "C",
    at bigint not null,
    told boolean not null default false,
    reason text collate "C",
    primary key (run_id, n)
);

create table stepfast.step (
    run_id uuid not null,
    seq integer not null,
    tenant text collate "C" not null,
    generation integer not null,
    superseded_by integer,
    path text collate "C" not null,
    name text collate "C" not null,
    count integer not null,
    kind text collate "C" not null,
    state text collate "C" not null,
    attempt integer not null,
    digest text collate "C" not null,
    input text not null,
    value text,
    error text,
    started_at bigint not null,
    ended_at bigint not null,
    due_at bigint,
    token integer not null,
    primary key (run_id, seq)
);

-- One number at a time: within a run positions grow with `seq`, because they are taken after the run's task is locked.
create sequence stepfast.event_position cache 1;

create table stepfast.event (
    position bigint not null default nextval('stepfast.event_position'),
    run_id uuid not null,
    seq integer not null,
    tenant text collate "C" not null,
    generation integer not null,
    type text collate "C" not null,
    at bigint not null,
    step text collate "C",
    attempt integer,
    token integer not null,
    actor text collate "C",
    causation_id text collate "C",
    data text,
    primary key (run_id, seq)
);

alter sequence stepfast.event_position owned by stepfast.event.position;
create index event_by_position on stepfast.event (position);
-- How far a run has got is asked for with each look at it, and its history may be long.
create index event_of_progress on stepfast.event (run_id, seq) where type = 'step_progress';
-- Annotations are found by their name, and by name and value at once; other events pay for neither.
create index event_of_annotation on stepfast.event ((data::jsonb ->> 'key'), tenant, position) where type = 'annotated';
create index event_of_annotated_value on stepfast.event ((data::jsonb ->> 'digest'), tenant, position) where type = 'annotated';

create table stepfast.worker (
    worker_id uuid primary key,
    label text not null,
    host text not null,
    pid integer not null,
    queues text not null,
    codes text not null,
    lacks text not null default '{}',
    crew text collate "C" not null default '',
    lease_ms bigint not null,
    started_at bigint not null,
    seen_at bigint not null,
    dead_at bigint,
    -- Their sum is a moment, too: one too great for a number would keep everybody from being buried.
    check (greatest(seen_at, lease_ms) < 1000000000000000)
) with (fillfactor = 50);
create index worker_dead on stepfast.worker (dead_at) where dead_at is not null;

-- Apart from the workers: one that leaves says where it has got to in those queues alone in which it has served anybody.
create table stepfast.turn (
    queue text collate "C" not null,
    crew text collate "C" not null,
    tenant text collate "C" not null,
    left_at bigint not null,
    primary key (queue, crew)
);
create index turn_last on stepfast.turn (queue, left_at, crew);

create table stepfast.lane (
    lane text collate "C" primary key,
    tenant text collate "C" not null,
    at_once integer not null
);

create table stepfast.dead_letter (
    run_id uuid not null,
    generation integer not null,
    tenant text collate "C" not null,
    workflow text collate "C" not null,
    version integer not null,
    step text collate "C",
    error_type text collate "C" not null,
    message text not null,
    recorded_at bigint not null,
    resolved_at bigint,
    resolution text,
    actor text collate "C",
    primary key (run_id, generation)
);

create index dead_letter_open on stepfast.dead_letter (tenant, workflow, run_id) where resolved_at is null;

create table stepfast.idempotency (
    tenant text collate "C" not null,
    command text collate "C" not null,
    key text collate "C" not null,
    digest text collate "C" not null,
    run_id uuid not null,
    answer text,
    at bigint not null,
    primary key (tenant, command, key)
);

create table stepfast.blob (
    run_id uuid not null,
    name text collate "C" not null,
    tenant text collate "C" not null,
    content bytea not null,
    at bigint not null,
    primary key (run_id, tenant, name)
);

-- The state that people see, derived here and nowhere else.
create view stepfast.run_state as
select r.run_id,
       r.tenant,
       r.workflow,
       coalesce(g.version, r.version) as version,
       r.kind,
       coalesce(g.code, r.code) as code,
       case when g.run_id is null then r.definition else g.definition end as definition,
       case
           when t.run_id is null then o.state
           when t.hold and t.state <> 'leased' then 'paused'
           when t.state = 'leased' then 'running'
           when t.state = 'ready' then case when t.claims = 0 then 'pending' else 'running' end
           when exists (
               select 1 from stepfast.wait w where w.run_id = t.run_id and w.kind not in ('delay', 'backoff')
           ) then 'waiting'
           when exists (select 1 from stepfast.wait w where w.run_id = t.run_id) then 'pending'
           -- It was set aside.
           else 'waiting'
       end as state,
       coalesce(t.generation, o.generation, 1) as generation,
       r.queue,
       r.priority,
       r.queued_at,
       coalesce(t.since_at, o.ended_at) as updated_at,
       case when t.run_id is null then o.ended_at end as ended_at,
       t.worker_id,
       coalesce(t.token, o.token) as token,
       coalesce(t.crashes, 0) as crashes,
       coalesce(t.claims, 0) as claims,
       r.parent_id,
       r.key,
       r.actor,
       r.correlation_id,
       r.causation_id,
       r.thread_id,
       r.subject,
       r.metadata,
       coalesce(g.input, r.input) as input,
       case when t.run_id is null then o.value end as value,
       case when t.run_id is null then o.error end as error
  from stepfast.run r
  left join stepfast.task t on t.run_id = r.run_id
  left join lateral (
      select x.*
        from stepfast.outcome x
       where x.run_id = r.run_id
       order by x.generation desc
       limit 1
  ) o on true
  left join stepfast.generation g on g.run_id = r.run_id
                                 and g.generation = coalesce(t.generation, o.generation, 1);

-- What `data` of such an event holds, as columns.
create view stepfast.annotation as
select e.position,
       e.seq,
       e.run_id,
       e.tenant,
       e.generation,
       e.at,
       e.step,
       e.attempt,
       e.actor,
       e.data::jsonb ->> 'key' as name,
       (e.data::json -> 'value')::text as value,
       e.data::jsonb ->> 'scope' as scope,
       e.data::jsonb ->> 'reason' as reason,
       e.data::jsonb ->> 'digest' as digest
  from stepfast.event e
 where e.type = 'annotated';
