import { setTimeout as sleep } from 'node:timers/promises'
import Docker from 'dockerode'
import { Client } from 'pg'
import type { RemoteEngine } from '../../activities/databases/port.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { databaseHostname } from '../../policy/databases/connection-url.ts'
import type { EngineName } from '../../policy/databases/engine.ts'
import type { BenchPlatform } from '../kit/platform.ts'
import { benchEngines } from './engines.ts'

export interface BerthDatabase {
  id: string
  path: string
  password: string
  remote: RemoteEngine
  /** From the request to its answer, which comes after the logins that prove the password, in ms. */
  tookMs: number
}

/** Images are made in the background. */
const imageSeconds = 1800
const pollMs = 5
const operationSeconds = 1800

/** Databases of one account, by the management API. Their ports are published on the address `bind`. */
export async function openBerth(platform: BenchPlatform, bind: string) {
  const key = await platform.account('standard-8')
  const rows = new Client({ connectionString: platform.info.database_url })
  await rows.connect()

  async function request<T>(method: string, path: string, body?: object): Promise<T> {
    const response = await fetch(platform.info.base_url + path, {
      method,
      headers: { authorization: key, ...(body && { 'content-type': 'application/json' }) },
      body: body && JSON.stringify(body),
    })
    const answer = JSON.parse((await response.text()) || 'null')
    if (!response.ok)
      throw Object.assign(new Error(`${method} ${path}: ${JSON.stringify(answer)}`), { code: answer?.code })
    return answer?.response
  }

  async function timed<T>(method: string, path: string, body?: object): Promise<{ tookMs: number; response: T }> {
    const startedAt = performance.now()
    const response = await request<T>(method, path, body)
    return { tookMs: performance.now() - startedAt, response }
  }

  async function create(type: EngineName): Promise<BerthDatabase> {
    const { version, memoryMb: memory } = benchEngines[type]
    const { tookMs, response } = await timed<{ id: string; password: string; certificate: string }>(
      'POST',
      '/v2/databases',
      { name: `bench ${type}`, type, version, memory },
    )
    const path = `/v2/databases/${response.id}`
    const { port } = await request<{ port: number }>('GET', path)
    const servername = databaseHostname(response.id, platform.info.apps_domain)
    return {
      ...response,
      path,
      tookMs,
      remote: { host: bind, port, authority: authorityOf(response.certificate), servername },
    }
  }

  /** An operation that takes over 90 s is answered before its end. */
  async function untilIdle({ id }: BerthDatabase): Promise<void> {
    const waits = `select 1 from operations where target_id = $1 and state in ('queued', 'running')`
    for (const deadline = Date.now() + operationSeconds * 1000; ; await sleep(pollMs)) {
      if ((await rows.query(waits, [id])).rowCount === 0) return
      if (Date.now() > deadline) throw new Error(`An operation of ${id} did not end within ${operationSeconds} s.`)
    }
  }

  return {
    create,

    /** The first database of an engine, once its image is ready. */
    async firstOf(type: EngineName): Promise<BerthDatabase> {
      for (const deadline = Date.now() + imageSeconds * 1000; ; await sleep(1000)) {
        try {
          return await create(type)
        } catch (error) {
          if ((error as { code?: string }).code !== 'CLUSTER_MAINTENANCE_TRY_LATER' || Date.now() > deadline)
            throw error
        }
      }
    },

    /** What stays goes with the platform. */
    remove: ({ path }: BerthDatabase) =>
      request<void>('DELETE', path).catch(ignoreError('the platform is thrown away')),

    /** Replaces the password in `database`; resolves to the ms until the answer. */
    async rotate(database: BerthDatabase): Promise<number> {
      const { tookMs, response } = await timed<{ password: string }>('POST', `${database.path}/credentials/reset`, {
        reset: 'password',
      })
      database.password = response.password
      return tookMs
    },

    /** Its address in the network of its owner; the port is the same. */
    async inside({ id, remote }: BerthDatabase): Promise<RemoteEngine> {
      const filters = { label: [`berth.database=${id}`] }
      const [container] = await new Docker().listContainers({ filters: filters as never })
      const [network] = Object.values(container?.NetworkSettings.Networks ?? {})
      if (!network?.IPAddress) throw new Error(`The container of ${id} has no address.`)
      return { ...remote, host: network.IPAddress }
    },

    /** One snapshot: ms until it was stored, and until it was answered as proved. */
    async snapshot(database: BerthDatabase): Promise<{ storedMs: number; provedMs: number }> {
      const { id, path } = database
      let storedMs = Number.NaN
      let isOver = false
      const startedAt = performance.now()
      const watch = async () => {
        for (; !isOver && Number.isNaN(storedMs); await sleep(pollMs)) {
          const { rows: found } = await rows.query(
            `select step from operations where target_id = $1 and kind = 'snapshot' and state = 'running'`,
            [id],
          )
          if (/^(reading the archive back|restoring )/.test(found[0]?.step)) storedMs = performance.now() - startedAt
        }
      }
      const watched = watch()
      try {
        await request('POST', `${path}/snapshots`)
        await untilIdle(database)
      } finally {
        isOver = true
      }
      const provedMs = performance.now() - startedAt
      await watched
      return { storedMs, provedMs }
    },

    async restore(database: BerthDatabase): Promise<void> {
      const { path } = database
      const [last] = await request<{ name: string; version_id: string }[]>('GET', `${path}/snapshots`)
      await request('POST', `${path}/snapshots/restore`, { snapshotId: last!.name, versionId: last!.version_id })
      await untilIdle(database)
    },

    close: () => rows.end(),
  }
}

export type Berth = Awaited<ReturnType<typeof openBerth>>

/** The third block of what owners read: key, certificate, authority. */
const authorityOf = (certificate: string): string =>
  Buffer.from(certificate, 'base64')
    .toString()
    .split(/(?<=-----END [A-Z ]+-----\n)/)[2] ?? ''
