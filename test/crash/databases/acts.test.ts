import test, { type ExecutionContext } from 'ava'
import { labels } from '../../../activities/containers/port.ts'
import { transaction } from '../../../db/database.ts'
import { queueUndo, queueUpgrade } from '../../../db/databases/database-acts.ts'
import { loadDatabase } from '../../../db/databases/databases.ts'
import { findOperation } from '../../../db/operations/operations.ts'
import { databaseHostname } from '../../../policy/databases/connection-url.ts'
import type { Answer } from '../../kit/actors/api.ts'
import { diesAt } from '../../kit/crash/crash-kit.ts'
import { privateImage } from '../../kit/databases/private-image.ts'
import { redisCustomer } from '../../kit/databases/redis-customer.ts'
import { bareDocker, bareEngine } from '../../kit/hosts/host-remains.ts'
import { type Entry, startEntry } from '../../kit/platform/entry.ts'
import { testPlatform } from '../../kit/platform/platform.ts'

const started = testPlatform({ hosts: {}, settings: { DATABASE_ENGINES: 'redis', DISK_MB_PER_256MB: '128' } })
/** Without a cache the image is created first, alongside the other tests. */
const imageSeconds = 1200
const timeoutMs = 1_500_000
const image = 'berth/redis:8'

/** The host as a process of its own, which dies at this point. */
async function host(t: ExecutionContext, point?: string): Promise<Entry> {
  const platform = await started
  platform.clearLater('h')
  const entry = startEntry('host', platform.hostSettings('h', point ? { CRASH_POINT: point } : {}))
  t.teardown(() => entry.kill('SIGKILL'))
  await entry.ready
  const ready = async () => (await platform.db('hosts').first())?.database_images?.[image] === 'ready'
  await platform.until(ready, imageSeconds, 'the image')
  return entry
}

/** A database with [1] in it, on a host that runs. */
async function rented() {
  const platform = await started
  const { db } = platform
  const as = platform.api.as(await platform.api.makeUser())
  const body = JSON.stringify({ name: 'kept', type: 'redis', version: '8', memory: 512 })
  const create = async () => {
    const answer = await as.post('/v2/databases', body)
    return answer.status !== 503 && answer // a host that has just come back says so within a moment
  }
  const answer = await platform.until<Answer>(create, 60, 'a host')
  if (answer.status !== 200) throw new Error(`POST /v2/databases answered ${answer.status}: ${answer.text}`)
  const { id, password, certificate } = answer.body.response
  const row = async () => (await loadDatabase(db, id))!
  const text = Buffer.from(certificate, 'base64').toString()
  const remote = {
    ...{ host: '127.0.0.1', port: (await row()).port, authority: text.slice(text.lastIndexOf('-----BEGIN')) },
    servername: databaseHostname(id, platform.base.config.databases.domain),
  }
  const customer = () => redisCustomer(remote, password)
  const write = async (number: number) => {
    const client = await customer()
    await client.write(number).finally(() => client.end())
  }
  await write(1)
  const path = `/v2/databases/${id}`
  async function ended(operationId: string) {
    const stateOf = async () => (await findOperation(db, operationId))!.state
    await platform.until(async () => ['success', 'error'].includes(await stateOf()), 300, 'the operation ends')
    return stateOf()
  }
  return {
    ...{ platform, db, as, id, path, row, write, ended },
    /** What a client reads once the database serves; exactly one engine may serve it. */
    async contents(t: ExecutionContext): Promise<number[]> {
      const opens = () =>
        customer().then(
          client => {
            client.end()
            return true
          },
          () => false,
        )
      await platform.until(opens, 120, 'it serves')
      const client = await customer()
      const read = (await client.read().finally(() => client.end())).sort()
      const engines = await bareEngine.list({ [labels.database]: id })
      const { generation } = await row()
      t.deepEqual(
        engines.filter(({ running }) => running).map(({ name }) => name),
        [`berth-db-${id}-${generation}`],
      )
      return read
    },
    async request(request: typeof queueUndo): Promise<string> {
      return (await transaction(db, trx => request(trx, { databaseId: id, actor: 'operator:test' }))).id
    },
  }
}

for (const point of ['host.stopDatabase:after', 'host.startDatabase:after'])
  test.serial(`a host that dies in an undo, at ${point}: the database has one volume or the other, whole`, async t => {
    t.timeout(timeoutMs)
    const first = await host(t)
    const { as, path, row, write, ended, contents, request, platform } = await rented()
    t.is((await as.post(`${path}/snapshots`)).status, 200)
    const [{ name: snapshotId, version_id: versionId }] = (await as.get(`${path}/snapshots`)).body.response
    await write(2)
    const restore = { body: JSON.stringify({ snapshotId, versionId }) }
    t.is((await as.request('POST', `${path}/snapshots/restore`, restore)).status, 200)
    await write(3)
    const { generation } = await row()
    await first.kill('SIGTERM')
    const armed = await host(t, point)
    const operation = await request(queueUndo)
    await diesAt(t, armed, point)
    const healed = await host(t)
    const state = await ended(operation)
    const undone = state === 'success'
    t.deepEqual(await contents(t), undone ? [1, 2] : [1, 3])
    const both = undone ? [1, generation] : [generation, 1]
    const { generation: serves, retired_generation: kept } = await row()
    t.deepEqual([serves, kept], both)
    // What was kept is whole, too.
    await platform.until(async () => (await row()).status === 'running', 60, 'its row says that it runs')
    t.is(await ended(await request(queueUndo)), 'success')
    t.deepEqual(await contents(t), undone ? [1, 3] : [1, 2])
    t.is((await as.request('DELETE', path)).status, 200)
    await healed.kill('SIGTERM')
  })

for (const point of ['host.chooseImage:after', 'host.startDatabase:after'])
  test.serial(
    `a host that dies in an upgrade, at ${point}: the database has one image or the other, and serves`,
    async t => {
      t.timeout(timeoutMs)
      const first = await host(t)
      const { as, path, row, ended, contents, request, db, id } = await rented()
      const { name, make, base } = privateImage(t, image)
      await db('databases').where({ id }).update({ image: name })
      const [former, present] = [await base(), await make('true')]
      await first.kill('SIGTERM')
      const armed = await host(t, point)
      const operation = await request(queueUpgrade)
      await diesAt(t, armed, point)
      const healed = await host(t)
      const state = await ended(operation)
      t.deepEqual(await contents(t), [1])
      const { image_id: kept, container_id: container } = await row()
      t.is(kept, state === 'success' ? present : former)
      t.is((await bareDocker.getContainer(container!).inspect()).Image, kept!)
      t.is((await as.request('DELETE', path)).status, 200)
      await healed.kill('SIGTERM')
    },
  )
