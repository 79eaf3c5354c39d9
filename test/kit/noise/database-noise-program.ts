import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from 'pg'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import { postgresClient, postgresOptions } from '../databases/postgres-customer.ts'
import { type IsSilent, makeNoiseOnOrder } from './noise-process.ts'

/** How often each kind of noise came to its end, or was refused as it should. */
export type Done = Record<'queries' | 'hungry' | 'rows' | 'logins' | 'refused' | 'lines', number>

export interface Target {
  remote: RemoteEngine
  password: string
}

/**
 * A customer at the limits of a Postgres: every connection taken, and many more tried; queries that compute; queries that want more memory
 * than there is, so that the kernel ends the engine; rows without end; logins with a wrong password without end; lines in its log.
 */
function noiseOf({ remote, password }: Target, isSilent: IsSilent) {
  const done: Done = { queries: 0, hungry: 0, rows: 0, logins: 0, refused: 0, lines: 0 }
  /** One statement on a connection of its own; it ends when the noise is to pause. */
  const query = async (text: string) => {
    const client = await postgresClient(postgresOptions(remote, password))
    const watch = setInterval(() => isSilent() && streamOf(client).destroy(), 50)
    try {
      await client.query("set statement_timeout = '20s'")
      await client.query(text)
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
  const bulk =
    'create unlogged table if not exists bulk (t text); insert into bulk select repeat(md5(a::text), 20) from generate_series(1, 50000) a; truncate bulk'
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
    counted('rows', () => query(bulk)),
    ...Array.from({ length: 4 }, () => counted('logins', login)),
    counted('lines', () => query(shout)),
    crowd,
    silent,
  ]
  return { done, acts }
}

const streamOf = (client: Client) => (client.connection as unknown as { stream: Socket }).stream

makeNoiseOnOrder(noiseOf)
