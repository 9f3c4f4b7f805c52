-- The durable core: every table of the first day. Rules: keys begin with run_id, no foreign keys, no unique index
-- without run_id (event.position excepted, which on SQLite is the row's own number), every row carries its tenant,
-- payloads are opaque text, moments are integer milliseconds.

create table migration (
    number integer primary key,
    name text not null,
    applied_at integer not null
) strict;

create table run (
    run_id text primary key,
    tenant text not null,
    workflow text not null,
    version integer not null,
    kind text not null,
    queue text not null,
    code text not null,
    priority integer not null,
    key text,
    input text not null,
    parent_id text,
    parent_wait integer,
    leave integer not null default 0,
    actor text,
    correlation_id text,
    causation_id text,
    thread_id text,
    subject text,
    metadata text,
    timeout_ms integer,
    definition text,
    queued_at integer not null
) without rowid, strict;

create index run_by_tenant on run (tenant, run_id);
create index run_by_workflow on run (tenant, workflow, version, run_id);
create index run_by_queued on run (tenant, queued_at);
create index run_by_parent on run (parent_id, parent_wait, run_id) where parent_id is not null;
create index run_by_actor on run (tenant, actor, run_id) where actor is not null;
create index run_by_correlation on run (tenant, correlation_id, run_id) where correlation_id is not null;
create index run_by_causation on run (tenant, causation_id, run_id) where causation_id is not null;
create index run_by_thread on run (tenant, thread_id, run_id) where thread_id is not null;
create index run_by_subject on run (tenant, subject, run_id) where subject is not null;

create table run_tag (
    run_id text not null,
    tag text not null,
    tenant text not null,
    primary key (run_id, tag)
) without rowid, strict;

create index run_tag_by_tag on run_tag (tenant, tag, run_id);

-- A later life of a run: what it starts with instead of what `run` holds.
create table generation (
    run_id text not null,
    generation integer not null,
    tenant text not null,
    version integer not null,
    code text not null,
    definition text,
    input text not null,
    cause text not null,
    actor text,
    reason text,
    opened_at integer not null,
    primary key (run_id, generation)
) without rowid, strict;

create table outcome (
    run_id text not null,
    generation integer not null,
    tenant text not null,
    state text not null,
    value text,
    error text,
    seq integer not null,
    token integer not null,
    ended_at integer not null,
    primary key (run_id, generation)
) without rowid, strict;

create index outcome_by_state on outcome (tenant, state, ended_at);

-- One narrow, hot row for every run that has not ended.
create table task (
    run_id text primary key,
    queue text not null,
    tenant text not null,
    code text not null,
    place integer not null,
    state text not null check (state in ('ready', 'leased', 'waiting')),
    generation integer not null default 1,
    due_at integer,
    deadline_at integer,
    hold integer not null default 0,
    wakes integer not null default 0,
    worker_id text,
    token integer not null default 0,
    claims integer not null default 0,
    crashes integer not null default 0,
    strikes integer not null default 0,
    tries integer not null default 0,
    lane text,
    since_at integer not null,
    check ((state = 'leased') = (worker_id is not null))
) without rowid, strict;

-- Code before tenant: a worker walks the tenants of each code it has, and never meets the codes it lacks.
create index task_ready on task (queue, code, tenant, place, run_id) where state = 'ready' and hold = 0 and crashes = 0;
create index task_suspect on task (queue, crashes, place, run_id) where state = 'ready' and hold = 0 and crashes > 0;
create index task_due on task (queue, due_at, run_id) where state = 'waiting' and due_at is not null and hold = 0;
create index task_held on task (worker_id, run_id) where state = 'leased';
create index task_deadline on task (deadline_at, run_id) where deadline_at is not null and state <> 'leased';

create table wait (
    run_id text not null,
    wait_id integer not null,
    tenant text not null,
    generation integer not null,
    kind text not null,
    name text not null,
    path text not null,
    count integer not null,
    opened_at integer not null,
    due_at integer,
    need integer not null default 1,
    spare integer not null default 0,
    total integer not null default 1,
    got integer not null default 0,
    failed integer not null default 0,
    primary key (run_id, wait_id)
) without rowid, strict;

create index wait_for_code on wait (run_id) where kind = 'code';

-- Groups of children that nobody will join: upkeep cancels those of them that have not ended.
create table unjoined (
    run_id text not null,
    wait_id integer not null,
    tenant text not null,
    primary key (run_id, wait_id)
) without rowid, strict;

-- However a wait ends, children that have not are not forgotten.
create trigger unjoin after delete on wait
when old.kind = 'children' and old.got + old.failed < old.total
begin
    insert into unjoined (run_id, wait_id, tenant)
    values (old.run_id, old.wait_id, old.tenant)
        on conflict do nothing;
end;

create table inbox (
    run_id text not null,
    n integer not null,
    tenant text not null,
    kind text not null,
    name text not null,
    value text,
    actor text,
    at integer not null,
    told integer not null default 0,
    reason text,
    cause text,
    primary key (run_id, n)
) without rowid, strict;

-- Not clustered by its key, as the rest is: a commit holds records of many runs, and appending them touches a tenth of
-- the pages that putting each beside the others of its run would.
create table step (
    run_id text not null,
    seq integer not null,
    tenant text not null,
    generation integer not null,
    superseded_by integer,
    path text not null,
    name text not null,
    count integer not null,
    kind text not null,
    state text not null,
    attempt integer not null,
    digest text not null,
    input text not null,
    value text,
    error text,
    started_at integer not null,
    ended_at integer not null,
    due_at integer,
    token integer not null,
    primary key (run_id, seq)
) strict;

create table event (
    position integer primary key autoincrement,
    run_id text not null,
    seq integer not null,
    tenant text not null,
    generation integer not null,
    type text not null,
    at integer not null,
    step text,
    attempt integer,
    token integer not null,
    actor text,
    causation_id text,
    data text
) strict;

create unique index event_of_run on event (run_id, seq);
-- How far a run has got is asked for with each look at it, and its history may be long.
create index event_of_progress on event (run_id, seq) where type = 'step_progress';
-- Annotations are found by their name, and by name and value at once; other events pay for neither.
create index event_of_annotation on event ((data ->> 'key'), tenant, position) where type = 'annotated';
create index event_of_annotated_value on event ((data ->> 'digest'), tenant, position) where type = 'annotated';

create table worker (
    worker_id text primary key,
    label text not null,
    host text not null,
    pid integer not null,
    queues text not null,
    codes text not null,
    lacks text not null default '{}',
    crew text not null default '',
    lease_ms integer not null,
    started_at integer not null,
    seen_at integer not null,
    dead_at integer
) without rowid, strict;
create index worker_dead on worker (dead_at) where dead_at is not null;

-- Apart from the workers: one that leaves says where it has got to in those queues alone in which it has served anybody.
create table turn (
    queue text not null,
    crew text not null,
    tenant text not null,
    left_at integer not null,
    primary key (queue, crew)
) without rowid, strict;
create index turn_last on turn (queue, left_at, crew);

create table lane (
    lane text primary key,
    tenant text not null,
    at_once integer not null
) without rowid, strict;

create table dead_letter (
    run_id text not null,
    generation integer not null,
    tenant text not null,
    workflow text not null,
    version integer not null,
    step text,
    error_type text not null,
    message text not null,
    recorded_at integer not null,
    resolved_at integer,
    resolution text,
    actor text,
    primary key (run_id, generation)
) without rowid, strict;

create index dead_letter_open on dead_letter (tenant, workflow, run_id) where resolved_at is null;

create table idempotency (
    tenant text not null,
    command text not null,
    key text not null,
    digest text not null,
    run_id text not null,
    answer text,
    at integer not null,
    primary key (tenant, command, key)
) without rowid, strict;

create table blob (
    run_id text not null,
    name text not null,
    tenant text not null,
    content blob not null,
    at integer not null,
    primary key (run_id, tenant, name)
) without rowid, strict;

-- Runs whose numbers are near the greatest that there are. No run gets there by itself, and one whose row somebody has
-- changed must not be counted on: the number after the greatest is an error of the whole transaction, and of all in it.
create view spent as
select t.run_id
  from task t
 where max(t.generation, t.wakes, t.token, t.claims, t.crashes, t.strikes, t.tries,
           (select coalesce(max(e.seq), 0) from event e where e.run_id = t.run_id)) >= 2000000000;

-- The state that people see, derived here and nowhere else.
create view run_state as
select r.run_id,
       r.tenant,
       r.workflow,
       coalesce(g.version, r.version) as version,
       r.kind,
       coalesce(g.code, r.code) as code,
       case when g.run_id is null then r.definition else g.definition end as definition,
       case
           when t.run_id is null then o.state
           when t.hold = 1 and t.state <> 'leased' then 'paused'
           when t.state = 'leased' then 'running'
           when t.state = 'ready' then case when t.claims = 0 then 'pending' else 'running' end
           when exists (select 1 from wait w where w.run_id = t.run_id and w.kind not in ('delay', 'backoff')) then 'waiting'
           when exists (select 1 from wait w where w.run_id = t.run_id) then 'pending'
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
  from run r
  left join task t on t.run_id = r.run_id
  left join outcome o on o.run_id = r.run_id
                     and o.generation = (select max(x.generation) from outcome x where x.run_id = r.run_id)
  left join generation g on g.run_id = r.run_id
                        and g.generation = coalesce(t.generation, o.generation, 1);

-- What `data` of such an event holds, as columns.
create view annotation as
select e.position,
       e.seq,
       e.run_id,
       e.tenant,
       e.generation,
       e.at,
       e.step,
       e.attempt,
       e.actor,
       e.data ->> 'key' as name,
       e.data -> 'value' as value,
       e.data ->> 'scope' as scope,
       e.data ->> 'reason' as reason,
       e.data ->> 'digest' as digest
  from event e
 where e.type = 'annotated';
