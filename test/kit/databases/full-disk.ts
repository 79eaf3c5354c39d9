import { execFileSync } from 'node:child_process'
import { existsSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext } from 'ava'
import { databaseContainerName, databaseVolume } from '../../../activities/databases/names.ts'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import { type DatabaseRow, loadDatabase } from '../../../db/databases/databases.ts'
import { databaseHostname } from '../../../policy/databases/connection-url.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { bareDocker } from '../hosts/host-remains.ts'
import type { TestPlatform } from '../platform/platform.ts'
import { type DiskFiller, diskFillers } from './disk-fillers.ts'
import { takeAllRoom } from './engine-volume.ts'

/** Without a cache images are created first, alongside the other tests. */
const imageSeconds = 1200
const MB = 1024 * 1024

export interface FullDiskSubject {
  engine: EngineName
  version: string
  memory: number
  image: string
}

/** A database of a platform, made by its API, whose disk a test fills. */
export async function fullDiskScene(platform: TestPlatform, { engine, version, memory, image }: FullDiskSubject) {
  const as = platform.api.as(await platform.api.makeUser())
  const ready = async () =>
    (await platform.db('hosts').first('database_images')).database_images[`berth/${image}`] === 'ready'
  await platform.until(ready, imageSeconds, `the image ${image}`)
  const body = JSON.stringify({ name: 'full', type: engine, version, memory })
  const answer = await as.request('POST', '/v2/databases', { body })
  if (answer.status !== 200) throw new Error(`POST /v2/databases answered ${answer.status}: ${answer.text}`)
  const { id, password, certificate } = answer.body.response
  const row = async (): Promise<DatabaseRow> => (await loadDatabase(platform.db, id))!
  const remote: RemoteEngine = {
    host: '127.0.0.1',
    port: (await row()).port,
    authority: Buffer.from(certificate, 'base64').toString(),
    servername: databaseHostname(id, platform.base.config.databases.domain),
  }
  const connect = () => diskFillers[engine](remote, password)
  const { generation } = await row()
  const volume = platform.hosts.get('a')!.parts.volumes.path(databaseVolume({ id, generation }))
  const path = `/v2/databases/${id}`
  const container = bareDocker.getContainer(databaseContainerName({ id, generation }))
  return {
    ...{ platform, as, path, volume, connect, row },

    hasBallast: () => existsSync(join(volume, 'ballast')),

    /** Something else takes what is more than this on its disk. */
    take(leftMb: number): void {
      const { bavail, bsize } = statfsSync(volume)
      execFileSync('fallocate', ['--length', String(bavail * bsize - leftMb * MB), join(volume, 'taken')])
    },
    /** Something takes all that is left. */
    takeAll: () => takeAllRoom(volume),
    giveBack: () => rmSync(join(volume, 'taken')),

    /** When the engine was started last. */
    startedAt: async () => (await container.inspect()).State.StartedAt,

    /** Ends the engine at once, if it runs. */
    async kill(): Promise<void> {
      await container.kill({ signal: 'SIGKILL' }).catch(error => {
        if (error.statusCode !== 409) throw error
      })
    },

    /** Works with a customer's connection as soon as the engine admits one; tries again until that has succeeded. */
    withCustomer: <T>(work: (customer: DiskFiller) => Promise<T>, seconds: number, what: string): Promise<T> =>
      platform
        .until(
          async () => {
            const customer = await connect().catch(() => null)
            if (!customer) return null
            try {
              return { outcome: await work(customer) }
            } catch {
              await sleep(200)
              return null
            } finally {
              customer.end()
            }
          },
          seconds,
          what,
        )
        .then(({ outcome }) => outcome),

    delete: () => as.request('DELETE', path),
  }
}

/** Writes as fast as several connections can, large rows and then small ones, until none is admitted; resolves to what was acknowledged. */
export async function fill(connect: () => Promise<DiskFiller>): Promise<Set<number>> {
  const acknowledged = new Set<number>()
  let number = 0
  for (const bytes of [256 * 1024, 8 * 1024, 512]) {
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        const customer = await connect().catch(() => null)
        for (let failures = 0; customer && failures < 2; ) {
          const own = ++number
          await customer.write(own, bytes).then(
            () => acknowledged.add(own),
            () => failures++,
          )
        }
        customer?.end()
      }),
    )
  }
  return acknowledged
}

export type FullDiskScene = Awaited<ReturnType<typeof fullDiskScene>>

/** From a full disk on: nothing is lost, nothing is added, and with room it is as before. */
export async function survives(
  t: ExecutionContext,
  it: FullDiskScene,
  acknowledged: ReadonlySet<number>,
  mayMiss = 0,
): Promise<void> {
  t.true(acknowledged.size > 20, String(acknowledged.size))
  await it.kill()
  const there = await it.withCustomer(customer => customer.numbers(), 120, 'it serves what it has')
  const missing = missingOf(acknowledged, there)
  t.true(missing.length <= mayMiss, `${missing.length} of ${acknowledged.size} are missing: ${missing.slice(0, 9)}`)
  t.truthy((await it.row()).read_only_since)
  await it.withCustomer(
    async customer => {
      const refused = await customer.write(9_000_000, 1000).then(
        () => false,
        () => true,
      )
      if (!refused || !(await customer.numbers()).length) throw new Error('it admits writes')
    },
    60,
    'it serves, and refuses what adds data',
  )
}

export async function admitsAgain(t: ExecutionContext, it: FullDiskScene): Promise<void> {
  await it.withCustomer(customer => customer.write(9_000_001, 1000), 120, 'it admits writes again')
  await it.platform.until(async () => (await it.row()).read_only_since === null, 30, 'its row says so')
  await it.platform.until(async () => it.hasBallast(), 30, 'it has its ballast again')
  t.pass()
}

/** Which of the numbers that were acknowledged are not there. */
export function missingOf(acknowledged: ReadonlySet<number>, there: readonly number[]): number[] {
  const known = new Set(there)
  return [...acknowledged].filter(number => !known.has(number))
}
