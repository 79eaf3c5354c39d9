import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { databasesCommand } from '../../../cli/databases/databases.ts'
import { loadDatabase } from '../../../db/databases/databases.ts'
import { databaseHostname } from '../../../policy/databases/connection-url.ts'
import { maxCrashes } from '../../../policy/databases/restarts.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { customers } from '../../kit/databases/customers.ts'
import { breaksRedis, privateImage } from '../../kit/databases/private-image.ts'
import { bareDocker } from '../../kit/hosts/host-remains.ts'
import { testPlatform } from '../../kit/platform/platform.ts'

const started = testPlatform({
  hosts: { a: {}, b: {} },
  settings: { DATABASE_ENGINES: 'redis', DISK_MB_PER_256MB: '128' },
})

/** Without a cache the image is created first, alongside the other tests. */
const imageSeconds = 1200
const timeoutMs = 1_500_000
const image = 'berth/redis:8'

/** A redis database on host a, with [1] in it, and the operator's commands. */
async function scene(t: ExecutionContext) {
  t.timeout(timeoutMs)
  const platform = await started
  const { db, base } = platform
  const ready = async () => {
    const hosts = await db('hosts').select('database_images')
    return hosts.length === 2 && hosts.every(host => host.database_images[image] === 'ready')
  }
  await platform.until(ready, imageSeconds, 'the image of redis on both hosts')
  const as = platform.api.as(await platform.api.makeUser())
  await db('hosts')
    .where({ id: platform.hostId('b') })
    .update({ draining: true })
  const body = { name: 'cache', type: 'redis', version: '8', memory: 512 }
  const answer = await as.post('/v2/databases', JSON.stringify(body))
  await db('hosts').update({ draining: false })
  if (answer.status !== 200) throw new Error(`POST /v2/databases answered ${answer.status}: ${answer.text}`)
  const { id, password, certificate } = answer.body.response
  const row = async () => (await loadDatabase(db, id))!
  const text = Buffer.from(certificate, 'base64').toString()
  const remote = {
    ...{ host: '127.0.0.1', port: (await row()).port, authority: text.slice(text.lastIndexOf('-----BEGIN')) },
    servername: databaseHostname(id, base.config.databases.domain),
  }
  const path = `/v2/databases/${id}`
  async function read(): Promise<number[]> {
    const customer = await customers.redis(remote, password)
    return customer.read().finally(() => customer.end())
  }
  async function write(number: number): Promise<void> {
    const customer = await customers.redis(remote, password)
    await customer.write(number).finally(() => customer.end())
  }
  await write(1)
  const berth = async (...args: string[]) => operatorHere([databasesCommand], base.settings, 'databases', ...args)
  return {
    ...{ platform, db, base, as, id, path, row, read, write, berth },
    async act(...args: string[]) {
      const { stdout, stderr } = await berth(...args)
      t.is(stderr, '', args.join(' '))
      return stdout
    },
    async snapshot() {
      t.is((await as.post(`${path}/snapshots`)).status, 200)
      return (await as.get(`${path}/snapshots`)).body.response[0] as { name: string; version_id: string }
    },
    async restore({ name: snapshotId, version_id: versionId }: { name: string; version_id: string }) {
      const restored = await as.request('POST', `${path}/snapshots/restore`, {
        body: JSON.stringify({ snapshotId, versionId }),
      })
      t.is(restored.status, 200, restored.text)
    },
    async remove() {
      t.is((await as.request('DELETE', path)).status, 200)
    },
  }
}

test.serial('an undo brings back what the restore has replaced, an undo of it what was restored', async t => {
  const { snapshot, restore, read, write, act, row, remove, as, path } = await scene(t)
  const taken = await snapshot()
  await write(2)
  await restore(taken)
  t.deepEqual(await read(), [1])
  await write(3)
  const { port, generation } = await row()
  t.regex(
    await act('undo', (await row()).id, '--yes'),
    /^The database cache now has the data from before the restore of /,
  )
  t.deepEqual((await read()).sort(), [1, 2])
  t.like(await row(), { port, generation: 1, retired_generation: generation, status: 'running' })
  t.regex(await act('undo', (await row()).id, '--yes'), /from before the undo of /)
  t.deepEqual((await read()).sort(), [1, 3])

  // Of a stopped one nothing is started.
  t.is((await as.post(`${path}/stop`)).status, 200)
  await act('undo', (await row()).id, '--yes')
  t.like(await row(), { generation: 1, status: 'exited', desired_state: 'stopped' })
  t.is((await as.post(`${path}/start`)).status, 200)
  t.deepEqual((await read()).sort(), [1, 2])
  await remove()
})

test.serial(
  'a drill restores a snapshot on another host, and says when it cannot; what serves is not touched',
  async t => {
    const { platform, db, base, id, snapshot, read, berth, row, remove } = await scene(t)
    const taken = await snapshot()
    const before = await row()
    const good = await berth('drill', id, '--json')
    t.is(good.stderr, '')
    const [evidence] = JSON.parse(good.stdout)
    const stored = await db('snapshots').where({ id: taken.version_id }).first()
    t.like(evidence, { outcome: 'good', host_id: platform.hostId('b'), snapshot: taken.version_id, reason: null })
    t.like(evidence, { digest: stored.contents, expected_digest: stored.contents, size: Number(stored.size) })
    await platform.until(
      async () => JSON.stringify(Object.values(await platform.remains('b')).flat()) === '[]',
      60,
      'nothing of it stays',
    )

    const file = segmentFile(join(base.folder, 'objects'), stored.segment_id)
    const bytes = readFileSync(file)
    for (let at = 40; at < bytes.length / 2; at++) bytes[at]! ^= 0xff
    writeFileSync(file, bytes)
    const bad = await berth('drill', id)
    t.regex(bad.stdout, /FAILED on host .* the snapshot of .* could not be restored\. \S+/)
    t.regex(bad.stderr, /^1 of the drills did not succeed:/)
    const [newest] = JSON.parse((await berth('drill', id, '--list', '--json')).stdout)
    t.like(newest, { outcome: 'failed', digest: null })
    t.truthy(newest.reason)
    t.deepEqual(await read(), [1])
    const { container_id, started_at, generation } = before
    t.like(await row(), { container_id, started_at, generation, status: 'running' })
    t.deepEqual((await platform.remains('a')).containers.length, 1)
    await platform.until(
      async () => JSON.stringify(Object.values(await platform.remains('b')).flat()) === '[]',
      60,
      'nothing of the failed one stays',
    )
    await remove()
  },
)

function segmentFile(folder: string, id: string): string {
  const found = readdirSync(folder, { recursive: true, withFileTypes: true }).find(file => file.name === id)
  if (!found) throw new Error(`There is no file of segment ${id}.`)
  return join(found.parentPath, found.name)
}

test.serial(
  'a new image of the same name changes nothing until the upgrade; with one that does not serve it goes back',
  async t => {
    const { db, as, path, id, row, read, act, berth, remove } = await scene(t)
    const { name, make, base } = privateImage(t, image)
    const first = await base()
    t.is((await row()).image_id, first, 'the image that it was created with')
    const runsWith = async () => (await bareDocker.getContainer((await row()).container_id!).inspect()).Image
    await db('databases').where({ id }).update({ image: name })
    const second = await make('true')
    t.not(second, first)
    t.is((await as.post(`${path}/stop`)).status, 200)
    t.is((await as.post(`${path}/start`)).status, 200)
    t.deepEqual([await runsWith(), (await row()).image_id], [first, first])

    const short = (imageId: string) => imageId.slice(7, 19)
    t.regex(
      await act('upgrade', id, '--yes', '--without-snapshot'),
      new RegExp(`: upgraded from ${short(first)} to ${short(second)}\n`),
    )
    t.deepEqual([await runsWith(), (await row()).image_id], [second, second])
    t.deepEqual(await read(), [1])
    const since = (await row()).started_at
    t.regex(await act('upgrade', id, '--yes', '--without-snapshot'), /: already has the current image/)
    t.deepEqual((await row()).started_at, since, 'it was not stopped')

    await make(breaksRedis)
    const failed = await berth('upgrade', id, '--yes', '--without-snapshot')
    t.regex(failed.stderr, /The upgrade FAILED: ACTION_FAILED: The engine .*ended.* It has its former image again\.$/)
    t.deepEqual([await runsWith(), (await row()).image_id, (await row()).status], [second, second, 'running'])
    t.deepEqual(await read(), [1])

    t.is((await as.post(`${path}/stop`)).status, 200)
    t.regex((await berth('upgrade', id, '--yes', '--without-snapshot')).stderr, /The upgrade FAILED/)
    t.like(await row(), { image_id: second, status: 'exited' })
    const third = await make('true')
    await act('upgrade', id, '--yes', '--without-snapshot')
    t.like(await row(), { image_id: third, status: 'exited', desired_state: 'stopped' })
    t.is((await as.post(`${path}/start`)).status, 200)
    t.deepEqual([await runsWith(), await read()], [third, [1]])
    await remove()
  },
)

test.serial('an operator starts what stays down', async t => {
  const { db, id, row, read, act, platform, remove } = await scene(t)
  // Before its end, which decides that it stays down: no start comes between.
  await db('databases')
    .where({ id })
    .update({ restarts: maxCrashes - 1 })
  await bareDocker.getContainer((await row()).container_id!).kill()
  await platform.until(async () => (await row()).restarts === maxCrashes, 60, 'its end')
  t.like(await row(), { status: 'exited', restart_at: null })
  t.is(await act('start', id), 'The database cache runs.\n')
  t.like(await row(), { status: 'running', restarts: 0 })
  t.deepEqual(await read(), [1])
  await remove()
})
