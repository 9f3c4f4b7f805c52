-- Outside work that nobody waits for any more, and that is to be stopped; `asking` is how it stood.
create table outside_left (
    run_id text not null,
    wait_id integer not null,
    tenant text not null,
    asking text not null,
    primary key (run_id, wait_id)
) without rowid, strict;

-- However a run ends, work that it has begun outside is not forgotten. A run that has ended has no task by then.
create trigger leave_outside after delete on wait
when old.kind = 'outside' and old.spare > 0 and not exists (select 1 from task t where t.run_id = old.run_id)
begin
    insert into outside_left (run_id, wait_id, tenant, asking)
    values (old.run_id, old.wait_id, old.tenant, old.name)
        on conflict do nothing;
end;
