-- Seals prove later that events are what was written. A seal has leaves, one for each run that it has events of.
create table stepfast.seal (
    number integer primary key,
    after bigint not null,
    upto bigint not null,
    events integer not null,
    leaves integer not null,
    root text not null,
    previous text not null,
    sealed_at bigint not null,
    key text not null,
    signature text not null
);

create table stepfast.leaf (
    number integer not null,
    n integer not null,
    run_id uuid not null,
    tenant text collate "C" not null,
    first_seq integer not null,
    last_seq integer not null,
    digest text not null,
    primary key (number, n)
);

create index leaf_by_run on stepfast.leaf (run_id, first_seq);

-- Stores a seal with its leaves; false when one of its number is there already.
create function stepfast.put_seal(
    k_number integer, k_after bigint, k_upto bigint, k_events integer, k_leaves integer, k_root text, k_previous text,
    k_sealed_at bigint, k_key text, k_signature text,
    l_run uuid[], l_tenant text[], l_first integer[], l_last integer[], l_digest text[]
) returns boolean
language plpgsql
as $$
begin
    insert into stepfast.seal (number, after, upto, events, leaves, root, previous, sealed_at, key, signature)
    values (k_number, k_after, k_upto, k_events, k_leaves, k_root, k_previous, k_sealed_at, k_key, k_signature)
        on conflict do nothing;
    if not found then
        return false;
    end if;
    insert into stepfast.leaf (number, n, run_id, tenant, first_seq, last_seq, digest)
    select k_number, i, l_run[i], l_tenant[i], l_first[i], l_last[i], l_digest[i]
      from generate_series(1, cardinality(l_run)) i;
    return true;
end
$$;
