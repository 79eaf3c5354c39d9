/** Ids of rows below, for what looks for them after an upgrade. */
export const older = {
  ana: '1'.repeat(18),
  ben: '2'.repeat(18),
  /** Has the address of `ben` in another case. */
  other: '3'.repeat(18),
  /** Both claim port 20001 of one host; the second started later. */
  shop: 'a'.repeat(24),
  cart: 'b'.repeat(24),
  idle: 'c'.repeat(24),
  created: '1'.repeat(32),
  pushed: '2'.repeat(32),
  waiting: '3'.repeat(32),
  restored: '4'.repeat(32),
  snapshot: 's'.repeat(32),
  orders: 'd'.repeat(32),
  ordered: '5'.repeat(32),
} as const

const { ana, ben, other, shop, cart, idle, created, pushed, waiting, restored, snapshot, orders, ordered } = older
const workspace = 'd'.repeat(40)

/**
 * Rows as an installation had them when its schema ended with this migration, by the migration that made their tables or columns: at
 * least one in every table. A migration that makes a table adds one here; what is here is never changed, as the migrations are not.
 */
export const olderRows: Record<string, string> = {
  '001-foundation': `
    insert into users (id, name, email, plan) values ('${ana}', 'Ana', 'Ana@Example.org', 'standard-4'),
      ('${ben}', 'Ben', 'ben@example.org', 'free'), ('${other}', 'Ben', 'BEN@example.org', 'free');
    insert into api_keys (id, user_id, hash, scopes) values ('k1', '${ana}', '\\x01', null), ('k2', '${ana}', '\\x02', '{apps:read}');
    insert into sessions (id, user_id, expires_at) values ('s1', '${ana}', now() + interval '1 day');
    insert into rate_limits (key, used, window_ends_at) values ('budget/${ana}', 1, now() + interval '1 minute');
    insert into idempotency_keys (user_id, key, route, fingerprint, status, body, headers)
      values ('${ana}', 'once', 'POST /v2/apps', 'f', 200, '{}', '{}');
    insert into hosts (id, address, read_url, memory_mb, disk_mb) values ('h1', '10.0.0.1', 'http://10.0.0.1:9', 8192, 100000);
    insert into settings (name, value) values ('installation', '{"id": "older", "store": true}');
    insert into segments (id, state, refs, size, sha256) values ('archive', 'stored', 1, 10, 'x'), ('body', 'stored', 1, 10, 'x'),
      ('part', 'stored', 1, 10, 'x'), ('copy', 'stored', 1, 10, 'x');
    insert into apps (id, owner_id, name, language, version, runtime_version, ram_mb, cpu, subdomain, main, host_id, status, release,
                      next_release, container_id, host_port, started_at, boot_id, provisioned_at)
      values ('${shop}', '${ana}', 'shop', 'javascript', 'recommended', '22', 512, 1, 'shop', 'index.js', 'h1', 'running', 1, 2, 'c1', 20001,
              now() - interval '2 days', 'boot', now() - interval '3 days'),
             ('${cart}', '${ana}', 'cart', 'javascript', 'recommended', '22', 512, 1, 'cart', 'index.js', 'h1', 'running', 1, 2, 'c2', 20001,
              now() - interval '1 day', 'boot', now() - interval '3 days'),
             ('${idle}', '${ben}', 'idle', 'static', 'recommended', '1', 512, 1, null, 'index.html', 'h1', 'exited', 1, 2, null, null, null,
              null, now() - interval '3 days');
    insert into operations (id, target_id, kind, owner_id, actor, state, created_at, started_at, finished_at)
      values ('${created}', '${shop}', 'create', '${ana}', '${ana}', 'success', now(), now(), now()),
             ('${pushed}', '${shop}', 'deploy', '${ana}', '${ana}', 'success', now(), now(), now()),
             ('${waiting}', '${cart}', 'restart', '${ana}', '${ana}', 'queued', now(), null, null);
    insert into deployments (id, app_id, operation_id, release, source, revision, segment_id, state)
      values ('${created}', '${shop}', '${created}', 1, 'upload', 'abc', 'archive', 'success'),
             ('${pushed}', '${shop}', '${pushed}', 2, 'git', 'def', null, 'error');
    insert into deployment_events (deployment_id, state) values ('${created}', 'pending'), ('${created}', 'success');
    insert into deployment_logs (deployment_id, seq, text) values ('${created}', 1, 'installed');`,

  '002-deploys': `
    insert into git_webhooks (id, app_id, address_hash, address_sealed, token_sealed) values ('w1', '${shop}', '\\x01', '\\x01', '\\x01');
    insert into git_installations (user_id, id, account, member, member_id) values ('${ana}', 7, 'ana', 'ana', 7);
    insert into git_links (app_id, user_id, installation_id, repository_id, full_name, branch, clone_url)
      values ('${cart}', '${ana}', 7, 70, 'ana/cart', 'main', 'https://git.example.org/ana/cart.git');
    insert into webhook_deliveries (id, app_id, source, delivery_id, provider, event, verdict, reply_status, reply_text, deployment_id)
      values ('first', '${shop}', 'webhook:w1', 'one', 'github', 'push', 'queued', 200, 'queued', '${pushed}'),
             ('again', '${shop}', 'webhook:w1', 'one', 'github', 'push', 'duplicate', 200, 'duplicate', '${pushed}');
    update deployments set superseded_by = '${created}' where id = '${pushed}';
    insert into operation_acts (operation_id, actor, act) values ('${pushed}', 'operator:ana', 'retry');
    update operations set retry_of = '${pushed}' where id = '${waiting}';`,

  '003-contents': `
    insert into app_variables (app_id, name, value_sealed) values ('${shop}', 'TOKEN', '\\x0101');
    insert into operations (id, target_id, kind, owner_id, actor, state, finished_at)
      values ('${restored}', '${shop}', 'restore', '${ana}', '${ana}', 'success', now());
    insert into snapshots (id, target_id, owner_id, operation_id, name, runtime, origin, state, segment_id, size, digest, finished_at)
      values ('${snapshot}', '${shop}', '${ana}', '${restored}', '${shop}_javascript_manual', 'javascript', 'manual', 'good', 'copy', 10, 'x', now());
    insert into deployments (id, app_id, operation_id, release, source, revision, state, trigger, snapshot_id)
      values ('${restored}', '${shop}', '${restored}', 3, 'snapshot', 'ghi', 'success', 'restore', '${snapshot}');
    insert into app_metrics (app_id, at, cpu, ram, net_in, net_out) values ('${shop}', now(), 1, 100, 10, 10);
    insert into mails (id, user_id, template, once) values ('m1', '${ana}', 'memory-out', 'm1');
    insert into realtime_listeners (id, user_id, app_id, expires_at) values ('l1', '${ana}', '${shop}', now() + interval '1 minute');`,

  '004-workspaces': `
    insert into workspaces (id, owner_id, name) values ('${workspace}', '${ana}', 'team');
    insert into workspace_members (workspace_id, user_id, role) values ('${workspace}', '${ben}', 'manager');
    insert into workspace_apps (workspace_id, app_id) values ('${workspace}', '${shop}');
    insert into workspace_invites (user_id, hash, expires_at) values ('${ana}', '\\x01', now() + interval '5 minutes');`,

  '005-audit': `
    insert into audit (account_id, actor, action, resource, result) values ('${ana}', '${ana}', 'apps.create', '${shop}', 'success');`,

  '006-sign-in': `
    insert into sign_ins (id, user_id, expires_at) values ('i1', '${ana}', now() + interval '10 minutes');
    insert into authorizations (code_hash, display, client, redirect_uri, scopes, challenge, user_id, decision, key_id, expires_at)
      values ('\\x01', 'AB', 'cli', 'http://127.0.0.1/', '{apps:read}', 'c', '${ana}', 'granted', 'k2', now() + interval '10 minutes');`,

  '007-downgrades': `
    insert into downgrades (id, user_id, plan_from, plan_to, expires_at)
      values ('${created}', '${ana}', 'standard-4', 'hobby-2', now() + interval '10 minutes');`,

  '008-blob': `
    insert into objects (owner_id, bucket, key, generation, birth, size, content_type, etag)
      values ('${ana}', 'public', 'a.txt', 'g1', 'b1', 10, 'text/plain', 'e');
    insert into object_parts (generation, position, segment_id, starts_at, length) values ('g1', 0, 'body', 0, 10);
    insert into uploads (id, owner_id, bucket, key, content_type, max_parts, max_bytes)
      values ('${created}', '${ana}', 'private', 'large.bin', 'text/plain', 10, 1000);
    insert into upload_parts (upload_id, part, segment_id, size, md5) values ('${created}', 1, 'part', 10, 'x');
    insert into blob_leases (subject, place, holder, expires_at) values ('part/${ana}', 1, 'h', now() + interval '1 minute');
    insert into shares (id, owner_id, bucket, key, birth, expires_at) values ('sh', '${ana}', 'public', 'a.txt', 'b1', now() + interval '1 day');
    insert into upload_tokens (id, owner_id, credential_id, hash, pins, max_uses, expires_at)
      values ('t1', '${ana}', 'k1', '\\x01', '{}', 1, now() + interval '1 hour');
    insert into blob_rules (owner_id, prefix, private) values ('${ana}', 'public/', false);
    insert into blob_usage (owner_id, objects, bytes) values ('${ana}', 1, 10);
    insert into usage_deltas (owner_id, objects, bytes) values ('${ana}', 0, 0);
    insert into quota_leases (id, owner_id, bytes, expires_at) values ('q1', '${ana}', 100, now() + interval '1 minute');
    insert into blob_usage_days (owner_id, day, byte_seconds) values ('${ana}', current_date, 10);
    insert into blob_receipts (id, kind, ended_at) values ('${created}', 'sweep', now());
    insert into blob_receipt_lines (receipt_id, subject, why) values ('${created}', 'body', 'nobody refers to it');`,

  '009-captchas': `
    insert into captchas (answer_hash, address, sign_in_id) values ('\\x01', '203.0.113.1', 'i1');`,

  '018-host-leases': `
    insert into host_leases (host_id, token, holder, held_until) values ('h1', 't', '{}', now());`,

  '040-rounds': `
    insert into app_change_epochs default values;
    insert into app_changes (app_id, host_id, subdomain) values ('${shop}', 'h1', 'shop');`,

  '043-s3': `
    insert into s3_buckets (owner_id, name) values ('${ana}', 'photos');
    insert into objects (owner_id, bucket, key, generation, birth, size, content_type, etag, s3)
      values ('${ana}', 'x-photos', 'a/../b', 'g2', 'b2', 0, 'text/plain', 'e', '{"tags": {"a": "b"}}');
    insert into uploads (id, owner_id, wire, bucket, key, content_type, max_parts, max_bytes, s3)
      values ('${pushed}', '${ana}', 's3', 'x-photos', 'c', 'text/plain', 10000, 1000, '{"checksum": {"algorithm": "CRC32", "type": "COMPOSITE"}}');`,

  '044-databases': `
    insert into authorities (name, certificate, key_sealed) values ('databases', 'PEM', '\\x0101'), ('database-passwords', null, '\\x0101');
    update hosts set database_images = '{"berth/postgres:17": "ready"}';
    insert into databases (id, owner_id, name, engine, version, image, ram_mb, reserved_mb, cpu, host_id, port, status, container_id, started_at,
                           boot_id, client_sealed, provisioned_at)
      values ('${orders}', '${ana}', 'orders', 'postgres', '17', 'berth/postgres:17', 1024, 1024, 1, 'h1', 20000, 'running', 'c3', now(), 'boot',
              '\\x0101', now());
    insert into operations (id, target_type, target_id, kind, owner_id, actor, state, finished_at)
      values ('${ordered}', 'database', '${orders}', 'create', '${ana}', '${ana}', 'success', now());
    insert into database_metrics (database_id, at, cpu, ram, net_in, net_out) values ('${orders}', now(), 1, 100, 10, 10);
    insert into database_change_epochs default values;`,

  '045-database-drills': `
    update databases set image_id = 'sha256:1' where id = '${orders}';
    insert into database_drills (id, database_id, owner_id, operation_id, actor, snapshot_id, host_id, outcome, started_at)
      values ('${created}', '${orders}', '${ana}', '${ordered}', 'platform', '${snapshot}', 'h1', 'good', now());`,

  '046-point-in-time': `
    insert into database_copies (database_id, generation, waiting, copied_at) values ('${orders}', 1, 0, now());
    insert into database_backups (id, database_id, generation, timeline, first_file, last_file, segment_id, size, from_at, to_at)
      values ('${created}', '${orders}', 1, 1, 3, 3, 'body', 10, now(), now());
    insert into database_wal (database_id, generation, timeline, number, segment_id, size, at)
      values ('${orders}', 1, 1, 3, 'part', 10, now());
    insert into database_switches (database_id, before, after) values ('${orders}', 1, 3);`,

  '048-database-upkeep': `
    update databases set read_only_since = now(), renewal_failures = 1 where id = '${orders}';`,

  '091-database-crashes': `
    update databases set crash_code = 137, crash_oom = true, crash_at = now(), crash_times = array[now()] where id = '${orders}';`,

  '051-domains': `
    insert into domains (hostname, owner_id, proved_at, txt_seen) values ('shop.example.org', '${ana}', now(), true);
    update apps set custom_domain = 'shop.example.org' where id = '${shop}';
    insert into domain_events (hostname, text) values ('shop.example.org', 'proved');
    insert into certificates (id, hostname, state, authority, chain, key_sealed, not_after)
      values ('${'6'.repeat(32)}', 'shop.example.org', 'current', 'local', 'PEM', '\\x01', now() + interval '90 days');
    insert into certificate_orders (registered) values ('example.org');
    insert into acme_accounts (directory_url, key_sealed) values ('https://authority.example/directory', '\\x01');
    insert into edges (id, applied) values ('local', pg_current_snapshot());
    insert into domain_change_epochs default values;`,

  '052-app-settings': `
    insert into app_settings (app_id, version, settings, page_bytes) values ('${shop}', 'v1', '{"maintenance": true}', 0);`,

  '053-ai': `
    update api_keys set ai_tokens_per_day = 1000 where id = 'k2';
    insert into ai_budgets (subject, day, tokens) values ('user/${ana}', current_date, 10);
    insert into ai_calls (id, user_id, key_id, subjects, tokens, next_at, started_at, ends_at)
      values ('${created}', '${ana}', 'k2', '{user/${ana}}', 100, now(), now(), now() + interval '95 s');
    insert into ai_days (user_id, key_id, day, requests, prompt_tokens, completion_tokens, refusals)
      values ('${ana}', 'k2', current_date, 1, 5, 5, '{"daily_limit_reached": 1}');`,

  '055-health': `
    update apps set health_path = '/ready', health = '{"status": "healthy", "since": "2030-01-01T00:00:00.000Z", "reason": null}',
      health_restart = '{"at": "2029-12-31T00:00:00.000Z", "reason": "/ready answered 503"}' where id = '${shop}';`,

  '057-install-cache': `
    update deployments set no_cache = true, dependencies = 'reused from release 1' where app_id = '${shop}';`,

  '061-domain-delays': `
    insert into domain_delays (hostname, owner_id, orders_failed, order_at, code, message, ends_at)
      values ('shop.example.org', '${ana}', 1, now() + interval '1 h', 'dns', 'No record', now() + interval '1 day');`,

  '064-owed-purges': `
    insert into owed_purges (app_id, id, due_at) values ('${shop}', 'owed', now());`,

  '090-database-places': `
    update hosts set database_domain = 'apps.example.org', database_addresses = '{10.0.0.1}' where id = 'h1';`,
}
