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
