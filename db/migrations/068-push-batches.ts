import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/**
 * Pushes that arrive together are stored by one statement, and confirmed by another: they share the locks, the commit and its sync.
 * `store_push`, `confirm_push` and `settle_deploy` serve processes of the version before until these are replaced.
 *
 * A plan that was made while tables were small is used on when they have grown, so these functions name how rows are looked up: by index.
 */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['operations', 'access exclusive']])
  await knex.raw(`
    -- What has not ended, of each application and database: also what waits for its confirmation.
    create index operations_open on operations (target_type, target_id, seq) where state in ('accepting', 'queued', 'running');
    drop index operations_queue;

    -- As before (059), with one look at the index of what has not ended. Several waiting deploys of one branch count as one, since the
    -- newest of them supersedes the others once they are confirmed.
    create or replace function queue_deploy(
      new_deployment text, new_operation text, of_app text, of_owner text, by_actor text, by_trigger text, from_source text,
      of_revision text, segment text, from_url text, on_branch text, in_path text, as_filename text, restarts boolean,
      with_config jsonb, without_cache boolean, max_waiting int, out place int, out waiting int
    ) language plpgsql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    declare
      number int;
    begin
      select count(*) filter (where not waits and state <> 'accepting') + count(distinct coalesce(branch, id)) filter (where waits) + 1,
             count(distinct coalesce(branch, id)) filter (where waits)
        into place, waiting
        from (select o.id, o.state, d.branch, o.state <> 'running' and o.kind = 'deploy' as waits
                from operations o left join deployments d on d.operation_id = o.id
               where o.target_type = 'app' and o.target_id = of_app and o.state in ('accepting', 'queued', 'running')
                 and o.kind in ('create', 'deploy', 'restore')) before
       where not (waits and branch is not distinct from on_branch and on_branch is not null);
      if waiting >= max_waiting then
        place := null; return;
      end if;
      update apps set next_release = next_release + 1 where id = of_app returning next_release - 1 into number;
      insert into operations (id, target_id, kind, owner_id, actor, state)
        values (new_operation, of_app, 'deploy', of_owner, by_actor, 'accepting');
      insert into deployments (id, operation_id, app_id, owner_id, release, trigger, source, revision, segment_id, clone_url, branch,
                               path, filename, restart, config, no_cache)
        values (new_deployment, new_operation, of_app, of_owner, number, by_trigger, from_source, of_revision, segment, from_url,
                on_branch, in_path, as_filename, restarts, with_config, without_cache);
      insert into deployment_events (deployment_id, state) values (new_deployment, 'pending');
    end $$;

    -- Moves stored deploys into the queues of their applications, whose rows the caller holds. They supersede waiting deploys of the same
    -- branch; or are superseded themselves, by the newest that was queued before or is settled with them. Returns further deployments
    -- that were superseded.
    create function settle_deploys(of_operations text[]) returns text[] language plpgsql
      set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    declare
      superseded text[];
    begin
      with me as materialized (
        select d.id, d.app_id, d.branch, d.operation_id,
               (select n.id from deployments n join operations p on p.id = n.operation_id
                 where n.app_id = d.app_id and n.release > d.release and n.branch = d.branch
                   and (p.state <> 'accepting' or p.id = any(of_operations))
                 order by n.release desc limit 1) as newer
          from operations o join deployments d on d.operation_id = o.id
         where o.id = any(of_operations) and o.state = 'accepting'
           for update of o
      ), queued as (
        update operations o set state = 'queued' from me where o.id = me.operation_id and me.newer is null
      ), overtaken as materialized (
        select operation_id as id, newer as by from me where newer is not null
        union all
        select o.id, me.id
          from me cross join lateral (
            -- From each of them to what waits for the same application, and not the other way round.
            select o.id from operations o join deployments d on d.operation_id = o.id
             where o.target_type = 'app' and o.target_id = me.app_id and o.state = 'queued' and o.kind = 'deploy' and d.branch = me.branch
            offset 0
          ) o
         where me.newer is null
      ), ended as (
        update operations o set state = 'cancelled', code = 'DEPLOY_SUPERSEDED', finished_at = now()
          from overtaken v where o.id = v.id and o.state in ('accepting', 'queued')
        returning o.id, v.by
      ), old as (
        update deployments d
           set state = 'error', code = 'DEPLOY_SUPERSEDED', message = 'A newer push was queued: deployment ' || ended.by || '.',
               superseded_by = ended.by, waiting_for = null, finished_at = now()
          from ended
         where d.operation_id = ended.id and d.state not in ('success', 'error')
        returning d.id, d.code, d.message, d.superseded_by
      ), old_event as (
        insert into deployment_events (deployment_id, state, details)
        select id, 'error', jsonb_build_object('code', code, 'message', message, 'superseded_by', superseded_by) from old
        on conflict (deployment_id, state) do nothing
      ), old_delivery as (
        update webhook_deliveries set verdict = 'superseded' where deployment_id in (select id from old)
      )
      select array(select id from old except select id from me) into superseded;
      return superseded;
    end $$;

    create or replace function settle_deploy(of_operation text) returns text[] language sql as $$
      select settle_deploys(array[of_operation]);
    $$;

    -- One row for each push, in their order: each is judged as by store_push (059), after those before it.
    create function store_pushes(
      new_deployments text[], new_operations text[], new_deliveries text[], of_apps text[], of_owners text[],
      by_webhooks text[], of_addresses bytea[], signed_for bytea[],
      from_sources text[], of_deliveries text[], by_providers text[], of_events text[],
      of_commits text[], on_branches text[], from_urls text[], from_origins text[], restarts boolean[],
      buckets text[], every_seconds float8[], bursts float8[], max_waiting int, lock_ms int,
      with_statuses int[], replies_before text[], replies_after text[]
    ) returns table (outcome text, deployment text, accepting text, reply text, sealed bytea, waiting int) language plpgsql
      set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    begin
      perform set_config('lock_timeout', lock_ms::text, true);
      -- All of them before the first look, sorted: batches cannot wait for each other in a circle.
      perform 1 from apps where id = any(of_apps) order by id for update;
      for n in 1 .. cardinality(new_operations) loop
        return query select * from store_push(
          new_deployments[n], new_operations[n], new_deliveries[n], of_apps[n], of_owners[n], by_webhooks[n], of_addresses[n], signed_for[n],
          from_sources[n], of_deliveries[n], by_providers[n], of_events[n], of_commits[n], on_branches[n], from_urls[n], from_origins[n],
          restarts[n], buckets[n], every_seconds[n], bursts[n], max_waiting, lock_ms, with_statuses[n], replies_before[n], replies_after[n]);
      end loop;
    end $$;

    -- Lets stored pushes start. One row for each, in their order: the state of its operation afterwards; null: it is missing.
    create function confirm_pushes(of_apps text[], of_operations text[], lock_ms int) returns table (state text) language plpgsql
      set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    #variable_conflict use_column
    declare
      live text[];
    begin
      perform set_config('lock_timeout', lock_ms::text, true);
      with locked as (select id from apps where id = any(of_apps) and desired_state <> 'deleted' order by id for update)
        select array_agg(id) into live from locked;
      perform settle_deploys(array(select operation from unnest(of_apps, of_operations) as u (app, operation) where app = any(live)));
      return query select o.state from unnest(of_operations) with ordinality as u (id, n) left join operations o using (id) order by u.n;
    end $$;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
