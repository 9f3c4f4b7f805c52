-- Outside work that nobody waits for any more, and that is to be stopped; `asking` is how it stood.
create table stepfast.outside_left (
    run_id uuid not null,
    wait_id integer not null,
    tenant text not null,
    asking text not null,
    primary key (run_id, wait_id)
);

-- However a run ends, work that it has begun outside is not forgotten. A run that has ended has no task by then.
create function stepfast.leave_outside() returns trigger
language plpgsql
as $$
begin
    insert into stepfast.outside_left (run_id, wait_id, tenant, asking)
    select old.run_id, old.wait_id, old.tenant, old.name
     where not exists (select from stepfast.task t where t.run_id = old.run_id)
        on conflict do nothing;
    return null;
end
$$;

create trigger leave_outside after delete on stepfast.wait
for each row when (old.kind = 'outside' and old.spare > 0) execute function stepfast.leave_outside();
