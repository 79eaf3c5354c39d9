import { existsSync, rmSync } from 'node:fs'
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
  /** The password that a rotation wants, if any: a start that was cut may have set it already. */
  nextPassword?: string | undefined
  /** False gives up safety against a power cut, for throw-away test clusters. */
  durable: boolean
  maxConnections: number
}

/** The superuser's address of one database of a cluster of ours. */
export function postgresUrl(port: number, password: string, database: string): string {
  return `postgres://berth:${password}@127.0.0.1:${port}/${database}`
}

/** The address that the processes get: their login may change rows, nothing else. */
export function processUrl(port: number, password: string, database: string): string {
  return `postgres://berth_process:${password}@127.0.0.1:${port}/${database}`
}

/** Postgres on loopback as one of our processes; the cluster is made when there is none. */
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
    readySeconds: 120, // a recovery after a crash replays its log first
    stopSignal: 'SIGINT', // "fast": open sessions are cut, nothing is lost
    graceSeconds: 20,
    needs: [],
  }
}

/** The password that the server knows its owner by. Rejects when it does not answer, or knows none of both. */
async function ownerPassword({ port, password, nextPassword }: PostgresOptions): Promise<string> {
  const works = (one: string) =>
    withDatabase(postgresUrl(port, one, 'postgres'), db => db.raw('select 1')).then(() => one)
  return works(password).catch(error => (nextPassword ? works(nextPassword) : Promise.reject(error)))
}

/** Gives the owner of a running cluster of ours the password that a rotation wants. May be repeated; none wanted is success. */
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
    jit: 'off', // what takes long here waits for disks and locks, not for arithmetic
    ...(durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
  }
  return ['-D', folder, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
}

/** An eighth of a machine's memory, for tables that are larger than Postgres' usual 128 MB; what it reads beyond that the system keeps. */
const sharedMegabytes = (bytes: number): number => Math.max(128, Math.min(1024, Math.floor(bytes / MiB / 8)))

/** Makes a database when it is missing. `url` is the superuser's address of any database of the server. */
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

/** Removes a throw-away cluster. */
export function removeCluster(folder: string): void {
  if (existsSync(folder)) rmSync(folder, { recursive: true, force: true })
}
