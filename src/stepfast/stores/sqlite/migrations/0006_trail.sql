-- Seals prove later that events are what was written. A seal has leaves, one for each run that it has events of.
create table seal (
    number integer primary key,
    after integer not null,
    upto integer not null,
    events integer not null,
    leaves integer not null,
    root text not null,
    previous text not null,
    sealed_at integer not null,
    key text not null,
    signature text not null
) strict;

create table leaf (
    number integer not null,
    n integer not null,
    run_id text not null,
    tenant text not null,
    first_seq integer not null,
    last_seq integer not null,
    digest text not null,
    primary key (number, n)
) without rowid, strict;

create index leaf_by_run on leaf (run_id, first_seq);

-- How far a sink has got: what stands at or below its cursor was delivered, waits with its run, or is a dead letter.
create table sink (
    name text not null primary key,
    cursor integer not null,
    publisher text,
    token integer not null,
    leased_until integer not null,
    tries integer not null,
    due_at integer not null,
    error text
) without rowid, strict;

-- Runs whose events wait from one on, because the sink did not take that one.
create table sink_held (
    sink text not null,
    run_id text not null,
    seq integer not null,
    tries integer not null,
    due_at integer not null,
    error text not null,
    primary key (sink, run_id)
) without rowid, strict;

-- Events that a sink did not take, however often they were offered.
create table sink_letter (
    sink text not null,
    position integer not null,
    run_id text not null,
    seq integer not null,
    tenant text not null,
    type text not null,
    tries integer not null,
    error text not null,
    recorded_at integer not null,
    replay_at integer,
    resolved_at integer,
    primary key (sink, position)
) without rowid, strict;

create index sink_letter_to_replay on sink_letter (sink, position) where replay_at is not null;
