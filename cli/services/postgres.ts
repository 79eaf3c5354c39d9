import { totalmem } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from '../../db/database.ts'
import { MiB } from '../../lib/bytes.ts'
import type { ProcessSpec } from '../../workers/supervisor/supervised-process.ts'
import type { Say } from '../terminal/terminal.ts'
import { type Cluster, createCluster, postgresBinaries, postgresEnvironment } from './postgres-cluster.ts'
import { systemUser } from './system-user.ts'

export interface PostgresOptions {
  folder: string
  port: number
  password: string
  /** The password of a pending rotation, if any: an interrupted start may have set it already. */
  nextPassword?: string | undefined
  /** False gives up safety against power cuts, for throw-away test clusters. */
  durable: boolean
  maxConnections: number
}

/** The superuser's address of a database in one of our clusters. */
export function postgresUrl(port: number, password: string, database: string): string {
  return `postgres://berth:${password}@127.0.0.1:${port}/${database}`
}

/** The address that the processes get: their login may change rows and nothing else. */
export function processUrl(port: number, password: string, database: string): string {
  return `postgres://berth_process:${password}@127.0.0.1:${port}/${database}`
}

/** Postgres on loopback as one of our processes; the cluster is created if there is none. */
export async function postgresProcess(options: PostgresOptions, say: Say): Promise<ProcessSpec> {
  const user = systemUser(say)
  const cluster: Cluster = {
    folder: options.folder,
    binaries: postgresBinaries(user),
    user,
    password: options.password,
  }
  await createCluster(cluster, say)
  return {
    name: 'postgres',
    command: async () => ({
      command: join(cluster.binaries, 'bin/postgres'),
      args: postgresArguments(options),
      env: postgresEnvironment(),
      cwd: options.folder,
      uid: user?.uid,
      gid: user?.gid,
    }),
    ready: () => ownerPassword(options),
    readySeconds: 120, // after a crash it replays its log first
    stopSignal: 'SIGINT', // "fast": sessions are cut off, nothing is lost
    graceSeconds: 20,
    needs: [],
  }
}

/** The owner's password that the server accepts. Rejects if it does not answer, or accepts neither. */
async function ownerPassword({ port, password, nextPassword }: PostgresOptions): Promise<string> {
  const works = (one: string) =>
    withDatabase(postgresUrl(port, one, 'postgres'), db => db.raw('select 1')).then(() => one)
  return works(password).catch(error => (nextPassword ? works(nextPassword) : Promise.reject(error)))
}

/** Sets the owner's password of a running cluster to that of a pending rotation. Repeatable; without a rotation it does nothing. */
export async function setOwnerPassword(options: PostgresOptions): Promise<void> {
  const { port, nextPassword } = options
  if (!nextPassword) return
  await withDatabase(postgresUrl(port, await ownerPassword(options), 'postgres'), async db => {
    const { rows } = await db.raw("select format('alter role berth password %L', ?::text) as statement", [nextPassword])
    await db.raw(rows[0].statement)
  })
}

function postgresArguments({ folder, port, durable, maxConnections }: PostgresOptions): string[] {
  const settings: Record<string, string | number> = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '',
    max_connections: maxConnections,
    password_encryption: 'scram-sha-256',
    log_timezone: 'UTC',
    timezone: 'UTC',
    shared_buffers: `${sharedMegabytes(totalmem())}MB`,
    jit: 'off', // slow statements here wait for disks and locks, not for the processor
    ...(durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
  }
  return ['-D', folder, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
}

/** An eighth of the machine's memory, for tables larger than Postgres' default of 128 MB; the system caches what Postgres reads beyond that. */
const sharedMegabytes = (bytes: number): number => Math.max(128, Math.min(1024, Math.floor(bytes / MiB / 8)))

/** Creates a database if it is missing. `url` is the superuser's address of any database of the server. */
export async function ensureDatabase(url: string, name: string): Promise<void> {
  await withDatabase(url, async db => {
    const { rows } = await db.raw('select 1 from pg_database where datname = ?', [name])
    if (rows.length === 0) await db.raw('create database ??', [name])
  })
}

async function withDatabase<T>(url: string, work: (db: ReturnType<typeof openDatabase>) => Promise<T>): Promise<T> {
  const db = openDatabase({ url, pool: 1, applicationName: 'berth-command' })
  try {
    return await work(db)
  } finally {
    await db.destroy()
  }
}
