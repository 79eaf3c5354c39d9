import type { Knex } from 'knex'

/**
 * Applications whose rows something else holds do not fail the pushes of others that are stored or confirmed with theirs: a statement waits
 * for all rows together, and goes on with those that are free. `store_pushes` and `confirm_pushes` (068) serve processes of the version before
 * until these are replaced.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Milliseconds until then, as a setting: 0 would be no limit.
    create function ms_until(moment timestamptz) returns int language sql volatile as $$
      select greatest(1, ceil(extract(epoch from moment - clock_timestamp()) * 1000))::int;
    $$;

    -- Until when a statement that has its applications waits for other rows, all together: they are held for a moment only, also when the
    -- time for the applications is over.
    create function time_for_others(until timestamptz) returns timestamptz language sql volatile as $$
      select greatest(until, clock_timestamp() + interval '100 milliseconds');
    $$;

    -- Locks the rows of applications, and returns those that something else still holds at this time. When that is all of them, it raises
    -- lock_not_available: whoever needs one application only waits for it, or fails.
    create function lock_apps_not_held(of_apps text[], until timestamptz) returns text[] language plpgsql
      set enable_seqscan = off as $$
    declare
      app text;
      free text[];
      held text[];
    begin
      -- Sorted: batches cannot wait for each other in a circle.
      for app in select distinct a from unnest(of_apps) a order by 1 loop
        perform set_config('lock_timeout', ms_until(until)::text, true);
        perform 1 from apps where id = app for update;
      end loop;
      return '{}';
    exception when lock_not_available then
      -- What it had locked is free again by now. From here on it waits for none.
      with locked as (select id from apps where id = any(of_apps) order by id for update skip locked)
        select coalesce(array_agg(id), '{}') into free from locked;
      select array_agg(id) into held from apps where id = any(of_apps) and id <> all(free);
      if held @> of_apps then raise; end if;
      return coalesce(held, '{}');
    end $$;

    -- One row for each push, in their order: each is judged as by store_push (059), after those before it. 'held': not judged, as something
    -- else holds the row of its application.
    create function store_free_pushes(
      new_deployments text[], new_operations text[], new_deliveries text[], of_apps text[], of_owners text[],
      by_webhooks text[], of_addresses bytea[], signed_for bytea[],
      from_sources text[], of_deliveries text[], by_providers text[], of_events text[],
      of_commits text[], on_branches text[], from_urls text[], from_origins text[], restarts boolean[],
      buckets text[], every_seconds float8[], bursts float8[], max_waiting int, lock_ms int,
      with_statuses int[], replies_before text[], replies_after text[]
    ) returns table (outcome text, deployment text, accepting text, reply text, sealed bytea, waiting int) language plpgsql
      set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    declare
      until timestamptz := clock_timestamp() + lock_ms * interval '1 millisecond';
      held text[] := lock_apps_not_held(of_apps, until);
    begin
      until := time_for_others(until);
      for n in 1 .. cardinality(new_operations) loop
        if of_apps[n] = any(held) then
          return query select 'held', null::text, null::text, null::text, null::bytea, null::int;
        else
          return query select * from store_push(
            new_deployments[n], new_operations[n], new_deliveries[n], of_apps[n], of_owners[n], by_webhooks[n], of_addresses[n],
            signed_for[n], from_sources[n], of_deliveries[n], by_providers[n], of_events[n], of_commits[n], on_branches[n], from_urls[n],
            from_origins[n], restarts[n], buckets[n], every_seconds[n], bursts[n], max_waiting, ms_until(until), with_statuses[n],
            replies_before[n], replies_after[n]);
        end if;
      end loop;
    end $$;

    -- Lets stored pushes start. One row for each, in their order: the state of its operation afterwards; null: it is missing; 'held': as above.
    create function confirm_free_pushes(of_apps text[], of_operations text[], lock_ms int) returns table (state text) language plpgsql
      set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    #variable_conflict use_column
    declare
      until timestamptz := clock_timestamp() + lock_ms * interval '1 millisecond';
      held text[] := lock_apps_not_held(of_apps, until);
      live text[];
    begin
      until := time_for_others(until);
      perform set_config('lock_timeout', ms_until(until)::text, true);
      select array_agg(id) into live from apps where id = any(of_apps) and id <> all(held) and desired_state <> 'deleted';
      perform settle_deploys(array(select operation from unnest(of_apps, of_operations) as u (app, operation) where app = any(live)));
      return query
        select case when u.app = any(held) then 'held' else o.state end
          from unnest(of_apps, of_operations) with ordinality as u (app, id, n) left join operations o on o.id = u.id order by u.n;
    end $$;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
