import type { Knex } from 'knex'

/**
 * A push is stored by one statement and confirmed by another: a git provider waits for each way to Postgres, and so do other pushes of the
 * application, whose row is locked. Each statement of a function sees what was committed before it, so also what it waited for.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- False: the bucket is empty. The row's window end is when it will be full again.
    create function take_from_bucket(bucket text, every_seconds float8, burst float8) returns boolean language plpgsql as $$
    begin
      insert into rate_limits as r (key, used, window_ends_at) values (bucket, 0, now() + make_interval(secs => every_seconds))
      on conflict (key) do update set window_ends_at = greatest(r.window_ends_at, now()) + make_interval(secs => every_seconds)
        where greatest(r.window_ends_at, now()) <= now() + make_interval(secs => every_seconds * (burst - 1));
      return found;
    end $$;

    -- Stores a deploy that waits for its confirmation: operation, deployment and first event. The caller holds the application's row.
    -- place: 1 = next, counts operations that wait or run before it. null: nothing was stored, as max_waiting deploys wait already.
    -- Those that it will supersede do not count.
    create function queue_deploy(
      new_deployment text, new_operation text, of_app text, of_owner text, by_actor text, by_trigger text, from_source text,
      of_revision text, segment text, from_url text, on_branch text, in_path text, as_filename text, restarts boolean,
      with_config jsonb, without_cache boolean, max_waiting int, out place int, out waiting int
    ) language plpgsql as $$
    declare
      number int;
    begin
      -- Queued and accepting operations have an index each, so that the time does not grow with the history.
      select count(*) filter (where o.state <> 'accepting') + 1, count(*) filter (where o.state <> 'running' and o.kind = 'deploy')
        into place, waiting
        from (select id, kind, state from operations
               where target_id = of_app and target_type = 'app' and state in ('queued', 'running')
              union all
              select id, kind, state from operations where target_id = of_app and target_type = 'app' and state = 'accepting') o
        left join deployments d on d.operation_id = o.id
       where o.kind in ('create', 'deploy', 'restore')
         and not (o.state <> 'running' and o.kind = 'deploy' and d.branch is not distinct from on_branch and on_branch is not null);
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

    -- Moves a stored deploy into the queue of its application, whose row the caller holds. It supersedes waiting deploys of the same
    -- branch; or is superseded itself, by a newer one that was queued first. Returns the deployments that it superseded.
    create function settle_deploy(of_operation text) returns text[] language plpgsql as $$
    declare
      superseded text[];
    begin
      with me as materialized (
        select d.id, d.app_id, d.branch, d.operation_id,
               (select n.id from deployments n join operations p on p.id = n.operation_id
                 where n.app_id = d.app_id and n.release > d.release and n.branch = d.branch and p.state <> 'accepting'
                 order by n.release desc limit 1) as newer
          from deployments d join operations o on o.id = d.operation_id
         where d.operation_id = of_operation and o.state = 'accepting'
           for update of o
      ), queued as (
        update operations o set state = 'queued' from me where o.id = me.operation_id and me.newer is null
      ), overtaken as materialized (
        select operation_id as id, newer as by from me where newer is not null
        union all
        select o.id, me.id
          from me join operations o on o.target_id = me.app_id and o.target_type = 'app' and o.state = 'queued' and o.kind = 'deploy'
          join deployments d on d.operation_id = o.id and d.branch = me.branch
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
      select array(select old.id from old, me where old.id <> me.id) into superseded;
      return superseded;
    end $$;

    -- Stores a push once per delivery id, as a deploy that waits for its confirmation, and counts its delivery. Outcomes:
    --   queued      with the reply, which names the place in the queue
    --   duplicate   of deployment; accepting = its operation, while that is not confirmed
    --   gone        webhook or application were deleted meanwhile, or the webhook has another address
    --   resealed    the webhook has a secret that is sealed otherwise than signed_for; nothing was stored
    --   full        the sender exceeds its rate; nothing was stored
    --   crowded     waiting deploys of the application wait already; the delivery was counted, and nothing was stored
    create function store_push(
      new_deployment text, new_operation text, new_delivery text, of_app text, of_owner text,
      by_webhook text, of_address bytea, signed_for bytea,                       -- null: the git provider's app delivered
      from_source text, of_delivery text, by_provider text, of_event text,
      of_commit text, on_branch text, from_url text, from_origin text, restarts boolean,
      bucket text, every_seconds float8, burst float8, max_waiting int, lock_ms int,
      with_status int, reply_before text, reply_after text,                      -- the place in the queue stands between both
      out outcome text, out deployment text, out accepting text, out reply text, out sealed bytea, out waiting int
    ) language plpgsql as $$
    declare
      place int;
    begin
      -- Ends before its client gives up: what is answered with a refusal must not be stored later.
      perform set_config('lock_timeout', lock_ms::text, true);
      -- Serializes concurrent copies of one delivery.
      perform 1 from apps where id = of_app and desired_state <> 'deleted' for update;
      if not found then
        outcome := 'gone'; return;
      end if;
      select d.deployment_id, o.id into deployment, accepting
        from webhook_deliveries d
        left join deployments p on p.id = d.deployment_id
        left join operations o on o.id = p.operation_id and o.state = 'accepting'
       where d.source = from_source and d.delivery_id = of_delivery and d.app_id = of_app and d.verdict in ('queued', 'superseded');
      if deployment is not null then
        outcome := 'duplicate'; return;
      end if;
      if by_webhook is not null then
        select secret_sealed into sealed from git_webhooks where id = by_webhook and address_hash = of_address;
        if not found then
          outcome := 'gone'; return;
        end if;
        if sealed is not null and sealed is distinct from signed_for then
          outcome := 'resealed'; return;
        end if;
      end if;
      if not take_from_bucket(bucket, every_seconds, burst) then
        outcome := 'full'; return;
      end if;
      select q.place, q.waiting into place, waiting
        from queue_deploy(new_deployment, new_operation, of_app, of_owner, of_owner, case when by_webhook is null then 'app' else 'webhook' end,
                          'git', of_commit, null, from_url, on_branch, '', null, restarts, null, false, max_waiting) q;
      if place is null then
        outcome := 'crowded'; return;
      end if;
      -- The first queued push binds the webhook's token to its host.
      update git_webhooks set token_host = from_origin where id = by_webhook and token_host is null;
      reply := reply_before || place || reply_after;
      insert into webhook_deliveries (id, app_id, source, delivery_id, provider, event, branch, commit, verdict, reply_status, reply_text,
                                      deployment_id)
        values (new_delivery, of_app, from_source, of_delivery, by_provider, of_event, on_branch, of_commit, 'queued', with_status, reply,
                new_deployment);
      outcome := 'queued'; deployment := new_deployment;
    end $$;

    -- Lets a stored push start. Returns the state of its operation afterwards; null: it is missing.
    create function confirm_push(of_app text, of_operation text) returns text language plpgsql as $$
    declare
      current_state text;
    begin
      perform 1 from apps where id = of_app and desired_state <> 'deleted' for update;
      if found then
        perform settle_deploy(of_operation);
      end if;
      select state into current_state from operations where id = of_operation;
      return current_state;
    end $$;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
