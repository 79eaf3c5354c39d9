import { createHash } from 'node:crypto'
import type { Db } from '../../../db/database.ts'

/** How much of everything an installation has. Numbers that are not given follow from that of the applications. */
export interface ManyRows {
  apps: number
  operations: number
  objects: number
  /** Applications are spread over these hosts, `h1` and so on; 1 when left out. */
  hosts?: number
}

/** Of each account, so that the lists of one account are as long in every installation. */
const appsOfAccount = 10
/** Of ten applications one has ended, and two have no address and too little memory for metrics. */
const appRow = `
  insert into apps (id, owner_id, name, language, version, runtime_version, ram_mb, cpu, subdomain, main, host_id, desired_state, status,
                    release, next_release, container_id, host_port, host_address, started_at, boot_id, exit_code, exit_at,
                    variables_running, provisioned_at, created_at)
  select left(md5('app' || n), 24), pg_temp.account(n), 'app ' || n, 'javascript', 'recommended', '22',
         case when n % 5 > 0 then 512 else 256 end, 1, case when n % 5 > 0 then 'many-' || n end, 'index.js', 'h' || 1 + n % :hosts,
         case when n % 10 = 7 then 'stopped' else 'running' end, case when n % 10 = 7 then 'exited' else 'running' end,
         10, 11, md5('container' || n) || md5('c' || n),
         case when n % 5 > 0 and n % 10 <> 7 then 20000 + n % 40000 end, '127.1.' || n / 40000 || '.1',
         case when n % 10 <> 7 then now() - interval '2 days' end, 'boot', case when n % 10 = 7 then 0 end,
         case when n % 10 = 7 then now() - interval '1 day' end, 0, now() - interval '170 days', now() - interval '170 days'
    from generate_series(1, :apps) n`

/** Of ten operations one is a deploy and three are snapshots. They are spread evenly over time, the newest is of a moment ago. */
const operationRows = `
  insert into operations (id, target_id, kind, owner_id, actor, state, code, created_at, started_at, finished_at)
  select md5('operation' || n), left(md5('app' || app), 24),
         case when n <= :apps then 'create' when turn % 10 = 0 then 'deploy' when turn % 10 < 4 then 'snapshot'
              when turn % 10 < 7 then 'restart' when turn % 10 = 7 then 'stop' else 'start' end,
         pg_temp.account(app), case when turn % 10 < 4 then 'platform' else pg_temp.account(app) end,
         case when n % 50 = 0 then 'error' when n % 201 = 0 then 'expired' else 'success' end,
         case when n % 50 = 0 then 'ACTION_FAILED' end, at, at + interval '1 second', at + interval '5 seconds'
    from (select n, 1 + (n - 1) % :apps as app, (n - 1) / :apps + n % 10 as turn,
                 now() - interval '170 days' * (1 - n::float8 / :operations) - interval '10 seconds' as at
            from generate_series(1, :operations) n) spread`

const deploymentRows = [
  `insert into deployments (id, app_id, operation_id, release, source, revision, state, trigger, owner_id, segment_id, created_at,
                            finished_at)
   select md5('deployment' || id), target_id, id, row_number() over (partition by target_id order by seq), 'upload', md5(id), 'success',
          'upload', owner_id, case when created_at > now() - interval '7 days' then md5('archive' || id) end, created_at, finished_at
     from operations where kind in ('create', 'deploy')`,
  `insert into segments (id, state, refs, size, sha256, drawn_at)
   select segment_id, 'stored', 1, 10000, md5(id) || md5(id), created_at from deployments where segment_id is not null`,
  `insert into deployment_events (deployment_id, state, at)
   select d.id, passed, d.created_at from deployments d, unnest(array['pending', 'clone', 'restarting', 'success']) passed`,
  `insert into deployment_logs (deployment_id, seq, text)
   select id, 1, repeat('one line of a log' || chr(10), 10) from deployments where created_at > now() - interval '30 days'`,
  `insert into webhook_deliveries (id, app_id, source, delivery_id, provider, event, branch, verdict, reply_status, reply_text,
                                   deployment_id, received_at)
   select md5('delivery' || id), app_id, 'webhook:' || app_id, id, 'github', 'push', 'main', 'queued', 200, 'ok', id, created_at
     from deployments where created_at > now() - interval '7 days'`,
]

const snapshotRows = [
  `insert into snapshots (id, target_id, owner_id, operation_id, name, runtime, origin, state, segment_id, size, digest, created_at,
                          finished_at)
   select md5('snapshot' || id), target_id, owner_id, id, target_id || '_javascript_automatic', 'javascript',
          case when turn = 5 then 'manual' else 'automatic' end, case when state = 'success' then 'good' else 'failed' end,
          case when state = 'success' then md5('body' || id) end, 10000, md5(id),
          now() - (turn - 1 + ('x' || left(target_id, 7))::bit(28)::integer % 1000 / 1001.0) * interval '1 day', finished_at
     from (select *, row_number() over (partition by target_id order by seq desc) as turn from operations where kind = 'snapshot') made`,
  `insert into segments (id, state, refs, size, sha256, drawn_at)
   select segment_id, 'stored', 1, 10000, md5(id) || md5(id), created_at from snapshots where segment_id is not null`,
  // As rounds of a day have left it: those without a snapshot are looked at a few times a day.
  `update apps set snapshot_due_at =
     coalesce(good + interval '1 day', now() + ('x' || left(apps.id, 7))::bit(28)::integer % 21600 * interval '1 second')
     from (select a.id, max(s.created_at) as good from apps a
             left join snapshots s on s.target_id = a.id and s.origin = 'automatic' and s.state = 'good' group by a.id) last
    where last.id = apps.id`,
]

const objectRows = [
  `insert into objects (owner_id, bucket, key, generation, birth, size, content_type, etag, sha256, expires_at)
   select pg_temp.account(1 + (n - 1) % :apps), case when n % 3 = 0 then 'private' else 'public' end, 'folder' || n % 100 || '/file' || n,
          md5('object' || n), md5('birth' || n), 20000, 'text/plain', md5(n::text), md5(n::text) || md5(n::text),
          case when n % 10 = 0 then now() + interval '1 year' end
     from generate_series(1, :objects) n`,
  `insert into segments (id, state, refs, size, sha256, crc32, drawn_at)
   select md5('bytes' || generation), 'stored', 1, 20000, sha256, 1, now() - interval '30 days' from objects`,
  `insert into object_parts (generation, position, segment_id, starts_at, length)
   select generation, 0, md5('bytes' || generation), 0, 20000 from objects`,
  `insert into blob_usage (owner_id, objects, bytes) select owner_id, count(*), sum(size) from objects group by owner_id`,
]

/** One for every ten applications, as far as a host has ports. */
const databaseRows = [
  `insert into databases (id, owner_id, name, engine, version, image, ram_mb, reserved_mb, cpu, host_id, port, status, container_id,
                          started_at, boot_id, provisioned_at, created_at)
   select md5('database' || n), pg_temp.account(n), 'database ' || n, 'redis', '8', 'berth/redis:8', 512, 512, 1, 'h' || 1 + n % :hosts,
          20000 + n / :hosts, 'running', md5('served' || n), now() - interval '2 days', 'boot', now() - interval '170 days',
          now() - interval '170 days'
     from generate_series(1, least(:apps / 10, 4000 * :hosts)) n`,
  // As rounds of a day have left it.
  `update databases set snapshot_due_at = now() + ('x' || left(id, 7))::bit(28)::integer % 86400 * interval '1 second',
     snapshot_tried_at = now() - ('x' || left(id, 7))::bit(28)::integer % 86400 * interval '1 second'`,
  `insert into operations (id, target_type, target_id, kind, owner_id, actor, state, created_at, started_at, finished_at)
   select md5('made' || id), 'database', id, 'create', owner_id, owner_id, 'success', created_at, created_at, created_at from databases`,
  `insert into database_metrics (database_id, at, cpu, ram, net_in, net_out)
   select id, now() - n * interval '5 minutes', 1, 100, 1000, 1000 from databases, generate_series(1, 72) n`,
]

const accountRows = [
  `insert into users (id, name, email, plan, plan_ends_at, created_at)
   select pg_temp.account(n), 'Ana', 'many-' || n || '@example.org', case when n % 3 = 0 then 'free' else 'standard-8' end,
          case when n % 3 > 0 then now() + interval '40 days' + n * interval '1 minute' end, now() - interval '170 days'
     from generate_series(1, :apps, ${appsOfAccount}) n`,
  `insert into api_keys (id, user_id, hash) select md5('key' || id || n), id, sha256((id || n)::bytea) from users, generate_series(1, 3) n`,
  `insert into sessions (id, user_id, expires_at)
   select md5('session' || id || n), id, now() + interval '20 days' from users, generate_series(1, 2) n`,
  `insert into mails (id, user_id, template, once, state, created_at)
   select md5('mail' || id || n), id, 'plan-ending', md5(id || n), 'sent', now() - n * interval '2 days' from users, generate_series(1, 3) n`,
]

const restRows = [
  `insert into audit (account_id, actor, action, resource, result, operation_id, at)
   select owner_id, owner_id, kind, target_id, 'success', id, created_at from operations
    where kind <> 'snapshot' and created_at > now() - interval '89 days'`,
  `insert into idempotency_keys (user_id, key, route, fingerprint, status, body, headers, created_at)
   select owner_id, id, 'POST /v2/apps', id, 200, '{}', '{}', now() - (now() - created_at) / 171 from operations
    where kind = 'deploy'`,
  `insert into app_metrics (app_id, at, cpu, ram, net_in, net_out)
   select id, now() - n * interval '5 minutes', 1, 100, 1000, 1000 from apps, generate_series(1, 72) n
    where ram_mb >= 512 and status = 'running'`,
]

const large = [
  ...[
    'operations',
    'deployments',
    'deployment_events',
    'webhook_deliveries',
    'snapshots',
    'objects',
    'object_parts',
    'segments',
  ],
  ...['audit', 'app_metrics'],
]

/**
 * Fills an empty, migrated database with an installation that has been at work for half a year, every row in step with the others, and
 * gathers statistics. Takes about a minute for a million operations and a million objects. The login is the owner of the schema.
 */
export async function fillMany(db: Db, { hosts = 1, ...sizes }: ManyRows): Promise<void> {
  await db.transaction(async trx => {
    // What refers to what is right as it is written, and looking each up takes longer than writing it. So does an index, row by row.
    await trx.raw(`set local session_replication_role = replica; set local maintenance_work_mem = '512MB'`)
    const indexes = await dropIndexes(trx)
    await trx.raw(`create function pg_temp.account(app integer) returns text immutable language sql return
      lpad((100000 + (app - 1) / ${appsOfAccount})::text, 18, '1')`)
    await trx.raw(
      `insert into hosts (id, address, memory_mb, disk_mb, boot_id, routed_boot_id)
       select 'h' || n, '127.0.0.1', 100000000, 1000000000, 'boot', 'boot' from generate_series(1, ?::integer) n`,
      [hosts],
    )
    const accounts = accountRows
    const apps = [appRow, operationRows, ...deploymentRows, ...snapshotRows]
    const all = [...accounts, ...apps, ...objectRows, ...restRows, ...databaseRows]
    for (const text of all) await trx.raw(text, { hosts, ...sizes } as never)
    for (const { definition } of indexes) await trx.raw(definition)
  })
  await db.raw('vacuum analyze')
}

/** Those that nothing but speed depends on. */
async function dropIndexes(trx: Db): Promise<{ name: string; definition: string }[]> {
  const { rows } = await trx.raw(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index
      where indrelid::regclass::text = any(?) and not indisunique`,
    [large],
  )
  for (const { name } of rows) await trx.raw('drop index ??', [name])
  return rows
}

/** The account of an application, counted from 1. */
export const accountOf = (app: number): string =>
  String(100_000 + Math.floor((app - 1) / appsOfAccount)).padStart(18, '1')

/** The id of an application, a database or an operation, counted from 1; the deployment of an operation has the id of its own. */
export function idOf(kind: 'app' | 'database' | 'operation' | 'deployment', n: number): string {
  const md5 = (text: string) => createHash('md5').update(text).digest('hex')
  if (kind === 'deployment') return md5(`deployment${idOf('operation', n)}`)
  return md5(`${kind}${n}`).slice(0, kind === 'app' ? 24 : 32)
}
