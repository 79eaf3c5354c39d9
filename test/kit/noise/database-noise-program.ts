import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from 'pg'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import { postgresClient, postgresOptions } from '../databases/postgres-customer.ts'
import { type IsSilent, makeNoiseOnOrder } from './noise-process.ts'

/** How often each kind of noise came to its end, or was refused as it should. */
export type Done = Record<'queries' | 'hungry' | 'rows' | 'commits' | 'logins' | 'refused' | 'lines', number>

export interface Target {
  remote: RemoteEngine
  password: string
}

/**
 * A customer at the limits of a Postgres: every connection taken, and many more tried; queries that compute; queries that want more memory
 * than there is, so that the kernel ends the engine; 30 MB of rows at a time, and one row at a time, each with its WAL and a commit that is
 * synced, without end; logins with a wrong password without end; lines in its log.
 */
function noiseOf({ remote, password }: Target, isSilent: IsSilent) {
  const done: Done = { queries: 0, hungry: 0, rows: 0, commits: 0, logins: 0, refused: 0, lines: 0 }
  /** Statements on a connection of their own, each committed; they end when the noise is to pause. */
  const query = async (...statements: string[]) => {
    const client = await postgresClient(postgresOptions(remote, password))
    const watch = setInterval(() => isSilent() && streamOf(client).destroy(), 50)
    try {
      await client.query("set statement_timeout = '20s'")
      for (const text of statements) await client.query(text)
    } finally {
      clearInterval(watch)
      void client.end().catch(() => {})
    }
  }
  const crowd = async () => {
    const clients: (Client | null)[] = await Promise.all(
      Array.from({ length: 150 }, () => postgresClient(postgresOptions(remote, password)).catch(() => null)),
    )
    done.refused += clients.filter(client => !client).length
    for (let n = 0; n < 20 && !isSilent(); n++) await sleep(50)
    for (const client of clients) void client?.end().catch(() => {})
  }
  const silent = async () => {
    const sockets: Socket[] = Array.from({ length: 100 }, () => connect(remote.port, remote.host).on('error', () => {}))
    for (let n = 0; n < 20 && !isSilent(); n++) await sleep(50)
    for (const socket of sockets) socket.destroy()
  }
  const compute = 'select count(*) from generate_series(1, 3000000) a where sqrt(a) > 0'
  const hunger =
    "set work_mem = '2GB'; select count(distinct repeat(md5(a::text), 30)) from generate_series(1, 3000000) a"
  const bulk = [
    'create table if not exists bulk (t text)',
    'insert into bulk select repeat(md5(a::text), 20) from generate_series(1, 50000) a',
    'truncate bulk',
  ]
  const commits = [
    'create table if not exists small (t text)',
    "do $$ begin for n in 1 .. 500 loop insert into small values ('a row that is synced'); commit; end loop; end $$",
    'truncate small',
  ]
  const shout = "do $$ begin for n in 1 .. 2000 loop raise warning '%', repeat('x', 2000); end loop; end $$"
  const counted = (kind: keyof Done, act: () => Promise<unknown>) => async () => {
    await act().finally(() => {
      if (!isSilent()) done[kind]++
    })
  }
  const login = () => postgresClient(postgresOptions(remote, 'wrong')).then(client => client.end())
  const acts = [
    ...Array.from({ length: 4 }, () => counted('queries', () => query(compute))),
    counted('hungry', () => query(hunger)),
    ...Array.from({ length: 2 }, () => counted('rows', () => query(...bulk))),
    ...Array.from({ length: 2 }, () => counted('commits', () => query(...commits))),
    ...Array.from({ length: 4 }, () => counted('logins', login)),
    counted('lines', () => query(shout)),
    crowd,
    silent,
  ]
  return { done, acts }
}

const streamOf = (client: Client) => (client.connection as unknown as { stream: Socket }).stream

makeNoiseOnOrder(noiseOf)
