import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import { databaseHostname } from '../../../policy/databases/connection-url.ts'
import type { Answer } from '../../kit/actors/api.ts'
import { diesAt } from '../../kit/crash/crash-kit.ts'
import { redisCustomer } from '../../kit/databases/redis-customer.ts'
import { type Entry, startEntry } from '../../kit/platform/entry.ts'
import { testPlatform } from '../../kit/platform/platform.ts'

const started = testPlatform({ hosts: {}, settings: { DATABASE_ENGINES: 'redis', DISK_MB_PER_256MB: '128' } })
/** Without a cache the image is made first, beside the other tests. */
const imageSeconds = 1200
const patience = 1_500_000

/** The host as a process of its own, which dies at this point. */
async function host(t: ExecutionContext, point?: string): Promise<Entry> {
  const platform = await started
  platform.clearLater('h')
  const entry = startEntry('host', platform.hostSettings('h', point ? { CRASH_POINT: point } : {}))
  t.teardown(() => entry.kill('SIGKILL'))
  await entry.ready
  const ready = async () => (await platform.db('hosts').first())?.database_images?.['berth/redis:8'] === 'ready'
  await platform.until(ready, imageSeconds, 'the image')
  return entry
}

interface Rented {
  id: string
  password: string
  remote: RemoteEngine
  path: string
}

async function scene() {
  const platform = await started
  const ana = await platform.api.makeUser()
  const as = platform.api.as(ana)
  const send = (method: string, path: string, body: object) => as.request(method, path, { body: JSON.stringify(body) })
  /** A host that has just come back says so within a moment. */
  async function create(): Promise<Answer> {
    for (const deadline = Date.now() + 30_000; ; ) {
      const answer = await send('POST', '/v2/databases', { name: 'kept', type: 'redis', version: '8', memory: 512 })
      if (answer.status !== 503 || Date.now() > deadline) return answer
      await sleep(200)
    }
  }
  async function rented(answer: Answer): Promise<Rented> {
    if (answer.status !== 200) throw new Error(`POST /v2/databases answered ${answer.status}: ${answer.text}`)
    const { id, password, certificate }: Record<string, string> = answer.body.response
    const path = `/v2/databases/${id}`
    const { port } = (await as.get(path)).body.response
    const text = Buffer.from(certificate!, 'base64').toString()
    const authority = text.slice(text.lastIndexOf('-----BEGIN'))
    const servername = databaseHostname(id!, platform.base.config.databases.domain)
    return { id: id!, password: password!, path, remote: { host: '127.0.0.1', port, authority, servername } }
  }
  return { platform, as, send, create, rented }
}

/** Whether this password opens the database, within a while after its host came back. */
async function opens(remote: RemoteEngine, password: string): Promise<boolean> {
  return redisCustomer(remote, password).then(
    customer => {
      customer.end()
      return true
    },
    () => false,
  )
}

/** Whatever happened: what the rows have is what the host has, once its watch has looked. */
async function nothingElse(t: ExecutionContext, point: string) {
  const platform = await started
  const rows: { id: string; generation: number }[] = await platform.db('databases').select('id', 'generation')
  const wanted = rows.map(({ id, generation }) => `berth-db-${id}-${generation}`).sort()
  const same = async () => JSON.stringify((await platform.remains('h')).containers.sort()) === JSON.stringify(wanted)
  await platform.until(same, 120, `${point}: exactly the containers of ${wanted}`)
  t.pass()
}

for (const point of ['host.prepareDatabase:after', 'database-engine.start:after', 'host.setDatabasePassword:after'])
  test.serial(`a host that dies in a creation, at ${point}: it is answered with the truth`, async t => {
    t.timeout(patience)
    const { as, create, rented } = await scene()
    const armed = await host(t, point)
    const asked = create()
    await diesAt(t, armed, point)
    const healed = await host(t)
    try {
      const answer = await asked
      if (answer.status === 200) {
        const database = await rented(answer)
        t.true(await opens(database.remote, database.password))
        t.is((await as.request('DELETE', database.path)).status, 200)
      } else t.is(answer.body.code, 'DATABASE_CREATION_FAILED', answer.text)
      await nothingElse(t, point)
    } finally {
      await healed.kill('SIGTERM')
    }
  })

for (const point of ['databases.settle:after', 'databases.locally:after', 'host.setDatabasePassword:after'])
  test.serial(
    `a host that dies in a rotation, at ${point}: exactly one password works, the one that was answered last`,
    async t => {
      t.timeout(patience)
      const { as, create, rented, send } = await scene()
      const first = await host(t)
      const database = await rented(await create())
      const customer = await redisCustomer(database.remote, database.password)
      await customer.write(7)
      await first.kill('SIGTERM')
      const armed = await host(t, point)
      const asked = send('POST', `${database.path}/credentials/reset`, { reset: 'password' })
      await diesAt(t, armed, point)
      const healed = await host(t)
      try {
        const answer = await asked
        const { platform } = await scene()
        const idle = async () =>
          !(await platform
            .db('operations')
            .where({ target_id: database.id })
            .whereIn('state', ['queued', 'running'])
            .first())
        await platform.until(idle, 120, 'the rotation ends, one way or the other')
        const fresh = answer.status === 200 ? answer.body.response.password : null
        t.is(await opens(database.remote, database.password), fresh === null, answer.text)
        if (fresh !== null) t.true(await opens(database.remote, fresh))
        const back = await redisCustomer(database.remote, fresh ?? database.password)
        t.deepEqual(await back.read(), [7])
        back.end()
        t.is((await as.request('DELETE', database.path)).status, 200)
        await nothingElse(t, point)
      } finally {
        await healed.kill('SIGTERM')
      }
    },
  )

for (const point of ['store.put:after', 'snapshots.unpack:after'])
  test.serial(`a host that dies in a snapshot, at ${point}: the next one takes it`, async t => {
    t.timeout(patience)
    const { as, create, rented, platform } = await scene()
    const first = await host(t)
    const database = await rented(await create())
    await first.kill('SIGTERM')
    const armed = await host(t, point)
    const asked = as.post(`${database.path}/snapshots`)
    await diesAt(t, armed, point)
    const healed = await host(t)
    try {
      const answer = await asked
      t.true([200, 202].includes(answer.status), answer.text)
      const listed = async () => (await as.get(`${database.path}/snapshots`)).body.response.length === 1
      await platform.until(listed, 120, 'the snapshot')
      t.is((await as.request('DELETE', database.path)).status, 200)
      await nothingElse(t, point)
      await platform.until(async () => (await platform.remains('h')).volumes.length === 0, 120, 'no volume is left')
    } finally {
      await healed.kill('SIGTERM')
    }
  })

for (const point of ['host.prepareRestore:after', 'host.stopDatabase:after', 'host.startDatabase:after'])
  test.serial(`a host that dies in a restore, at ${point}: the database has one state or the other, whole`, async t => {
    t.timeout(patience)
    const { as, create, rented, send, platform } = await scene()
    const first = await host(t)
    const database = await rented(await create())
    const customer = await redisCustomer(database.remote, database.password)
    await customer.write(1)
    t.is((await as.post(`${database.path}/snapshots`)).status, 200)
    const [snapshot] = (await as.get(`${database.path}/snapshots`)).body.response
    await customer.write(2)
    await first.kill('SIGTERM')
    const armed = await host(t, point)
    const body = { snapshotId: snapshot.name, versionId: snapshot.version_id }
    const asked = send('POST', `${database.path}/snapshots/restore`, body)
    await diesAt(t, armed, point)
    const healed = await host(t)
    try {
      await asked
      const ended = async () => {
        const { state } = (await as.get(`${database.path}/snapshots/restore`)).body.response
        return ['success', 'error'].includes(state) && state
      }
      const state = await platform.until<string>(ended, 200, 'the restore ends')
      await platform.until(() => opens(database.remote, database.password), 60, 'it serves')
      const back = await redisCustomer(database.remote, database.password)
      t.deepEqual(await back.read(), state === 'success' ? [1] : [1, 2])
      back.end()
      t.is((await as.request('DELETE', database.path)).status, 200)
      await nothingElse(t, point)
    } finally {
      await healed.kill('SIGTERM')
    }
  })
