import { type NetConnectOpts, Socket } from 'node:net'
import { basename } from 'node:path'
import { Client, type ClientConfig } from 'pg'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { pause } from '../../../../lib/async/loop.ts'
import { customerUser } from '../../../../policy/databases/connection-url.ts'
import { type DatabaseEngine, EngineUnavailable, type LocalEngine } from '../../port.ts'
import { type EngineCall, engineCall, openSeconds } from '../engine-call.ts'
import { limitOfDefinitions, maxDefinitions } from '../read-limits.ts'
import { giveIdentity } from './postgres-identity.ts'
import { configFile, dataFolder, platformRole, postgresSettings } from './postgres-settings.ts'
import { scramVerifier } from './postgres-verifier.ts'

const changeSeconds = 20
const lockMs = 500
const pollMs = 20
const goodbyeMs = 200

/** Its name on this connection only; a server that wants a password is not ours. */
const noPassword = 'none'
/** A wrong password or a missing role; refused by the rules for hosts. */
const refusals = new Set(['28P01', '28000'])
/** A session of the customer is changing the role: it waited too long, or the other came first. */
const conflicts = new Set(['55P03', 'XX000'])

export const postgresEngine: DatabaseEngine = {
  settings: postgresSettings,

  // Sessions raise their own score, so that the kernel ends one of them and not the process that restarts them.
  command: ({ version }) => [
    'env',
    'PG_OOM_ADJUST_FILE=/proc/self/oom_score_adj',
    'PG_OOM_ADJUST_VALUE=900',
    program(version, 'postgres'),
    '-D',
    dataFolder,
    '-c',
    `config_file=${configFile}`,
  ],

  // The name appears when the folder is complete; the host syncs it. Collation by code point does not depend on the image's C library.
  initialise: ({ version }) => {
    const options = `--username=${platformRole} --auth=reject --encoding=UTF8 --locale=C.UTF-8 --locale-provider=builtin --builtin-locale=C.UTF-8 --data-checksums --no-sync --no-instructions`
    const initdb = `${program(version, 'initdb')} --pgdata=${dataFolder}.new ${options}`
    const steps = `rm -rf ${dataFolder}.new && ${initdb} && mv -T ${dataFolder}.new ${dataFolder}`
    return [['sh', '-c', `test -d ${dataFolder} || { ${steps}; }`]]
  },

  template: { folder: basename(dataFolder), without: [], individualize: giveIdentity },

  socketName: ({ port }) => `.s.PGSQL.${port}`,

  async ping(engine) {
    await asPlatform(engine, {}, client => client.query('select 1'))
  },

  async setPassword(engine) {
    const { secrets } = engine
    const verifier = await scramVerifier(secrets.password)
    await asPlatform(engine, { seconds: changeSeconds }, async client => {
      await ensureCustomer(client)
      const role = `login createrole createdb nosuperuser noreplication nobypassrls inherit
        connection limit -1 valid until 'infinity'`
      // A statement has no parameters here; the verifier is base64 and separators only.
      await untilChanged(client, `alter role "${customerUser}" with ${role} password '${verifier}'`)
      await endSessions(client)
    })
    return 'in effect'
  },

  async login({ host, port, authority, servername }, password) {
    const ssl = { ca: authority, servername, rejectUnauthorized: true }
    const config = { user: customerUser, database: customerUser, host: servername, ssl, password }
    return conversation(config, { secrets: [password] }, { host, port }, async client => {
      // After this message the password was right, whatever else the customer has done to the database.
      const authenticated = new Promise<'accepted'>(done =>
        client.connection.once('authenticationOk', () => done('accepted')),
      )
      const connected = client.connect().then(() => 'accepted' as const)
      connected.catch(ignoreError('it lost the race'))
      return Promise.race([authenticated, connected]).catch(error => {
        if (refusals.has(error.code)) return 'refused' as const
        throw error
      })
    })
  },

  async reloadCertificate(engine) {
    return (await reloadSettings(engine)) ? 'in effect' : 'after a restart'
  },

  async admitWrites(engine) {
    if (!(await reloadSettings(engine))) throw new EngineUnavailable('The postgres engine does not read its settings.')
    if (!engine.traits.readOnly) return
    await asPlatform(engine, { seconds: changeSeconds }, client =>
      // Transactions that have written nothing yet are read-only from their next one on.
      client.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where backend_type = 'client backend' and usename <> $1 and backend_xid is not null`,
        [platformRole],
      ),
    )
  },
}

/** Makes the engine read its settings and certificates again; false when it has not within a few seconds. */
async function reloadSettings(engine: LocalEngine): Promise<boolean> {
  const now = await asPlatform(engine, {}, async client => {
    const { rows } = await client.query('select clock_timestamp()::text as now, pg_reload_conf()')
    return rows[0].now as string
  })
  // A session begins with the settings that the main process has loaded, and certificates with them.
  const loaded = async (client: Client): Promise<boolean> => {
    const { rows } = await client.query('select pg_conf_load_time() >= $1::timestamptz as loaded', [now])
    return rows[0].loaded
  }
  for (let attempts = 0; attempts < 200; attempts++) {
    if (await asPlatform(engine, {}, loaded)) return true
    await pause(pollMs)
  }
  return false
}

/** The place of programs in the images of Debian and of the project itself. */
export const program = (version: string, name: string): string => `/usr/lib/postgresql/${version}/bin/${name}`

/** Creates the customer's role and the database that it owns. A customer may have dropped the database. */
async function ensureCustomer(client: Client): Promise<void> {
  const { rows } = await client.query(
    `select exists (select from pg_roles where rolname = $1) as role,
      exists (select from pg_database where datname = $1) as database`,
    [customerUser],
  )
  if (!rows[0].role) await client.query(`create role "${customerUser}"`)
  // template0 accepts no connections, so no session of the customer is in the way.
  if (!rows[0].database)
    await client.query(`create database "${customerUser}" owner "${customerUser}" template template0`)
}

/** A session of the customer may hold a lock on the role that this statement changes, for as long as it lives. */
async function untilChanged(client: Client, statement: string): Promise<void> {
  for (;;) {
    try {
      await client.query(statement)
      return
    } catch (error) {
      if (!conflicts.has((error as { code?: string }).code ?? '')) throw error
      await endSessions(client)
    }
  }
}

/**
 * Ends every session of the customer, of all roles. Those that are still logging in may have read the former password already; the
 * list of sessions does not have them, but the locks of their first transaction do: locks are read first, so that none is between.
 */
async function endSessions(client: Client): Promise<void> {
  const locks = await client.query('select distinct pid from pg_locks where pid is not null')
  const sessions = await client.query('select pid, backend_type, usename from pg_stat_activity where pid is not null')
  const pids = new Set(sessions.rows.map(({ pid }) => pid))
  const victims = [
    ...sessions.rows.filter(row => row.backend_type === 'client backend' && row.usename !== platformRole),
    ...locks.rows.filter(({ pid }) => !pids.has(pid)),
  ].map(({ pid }) => pid)
  for (let left = victims.length; left > 0; ) {
    const { rows } = await client.query(
      'select count(*) filter (where pg_terminate_backend(pid))::int as left from unnest($1::int[]) as pid',
      [victims],
    )
    left = rows[0].left
    if (left > 0) await pause(pollMs)
  }
}

export interface PlatformSession {
  /** Of the whole conversation, and of each statement; default 5. */
  seconds?: number
  /** Default `postgres`, where customers own nothing: no setting or function of theirs is in effect. */
  database?: string
  /** Settings by name, without spaces. They precede those that customers give their databases. */
  settings?: Readonly<Record<string, string>>
  /** A replication connection, which accepts commands of replication only. */
  replication?: boolean
}

/** One conversation as the platform's role, through the socket. */
export async function asPlatform<T>(
  engine: LocalEngine,
  { seconds = openSeconds, database = 'postgres', settings = {}, replication = false }: PlatformSession,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const { socket, secrets, signal } = engine
  const own = {
    search_path: 'pg_catalog',
    statement_timeout: `${seconds}s`,
    lock_timeout: `${lockMs}ms`,
    default_transaction_read_only: 'off',
    ...settings,
  }
  const config: ClientConfig = {
    host: 'localhost',
    user: platformRole,
    database,
    password: noPassword,
    ssl: false,
    options: Object.entries(own)
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(' '),
    application_name: 'berth',
    ...(replication && { replication: 'true' }),
  }
  const call = { secrets: Object.values(secrets), seconds, signal }
  return conversation(config, call, { path: socket }, async client => {
    await client.connect()
    // A base backup passes by piece by piece.
    if (!replication) limitOfDefinitions(maxDefinitions(engine)).watch(client.connection.stream)
    return work(client)
  })
}

/** One connection to an address or a socket, whatever the driver makes of its name. */
async function conversation<T>(
  config: ClientConfig,
  call: Omit<EngineCall, 'engine'>,
  to: NetConnectOpts,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const socket = new Socket()
  const stream = Object.assign(socket, { connect: () => Socket.prototype.connect.call(socket, to as never) })
  const client = new Client({ ...config, connectionTimeoutMillis: openSeconds * 1000, stream: () => stream })
  client.on('error', ignoreError('every query rejects with it, too'))
  const talk = async () => {
    const result = await work(client)
    // Otherwise the engine would log that a client vanished.
    await Promise.race([client.end(), pause(goodbyeMs)])
    return result
  }
  return engineCall({ engine: 'postgres', ...call }, talk, () => socket.destroy())
}
