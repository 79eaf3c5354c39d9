import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { transaction } from '../../../../db/database.ts'
import * as segments from '../../../../db/objects/segments.ts'
import { finishOperation, type OperationRow } from '../../../../db/operations/operations.ts'
import { sweepSnapshots } from '../../../../db/snapshots/snapshot-retention.ts'
import { markSnapshotFailed, markSnapshotGood } from '../../../../db/snapshots/snapshots.ts'
import { TtlCache } from '../../../../lib/async/ttl-cache.ts'
import { commandTimeouts } from '../../../../policy/timeouts.ts'
import type { Answer, TestUser } from '../../../kit/actors/api.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { sweep } from '../../../kit/objects/sweep.ts'
import { searchFor, tablesWith } from '../../../kit/platform/secret-search.ts'
import { makeWorkspace } from '../../../kit/rows/workspaces.ts'

const api = testApi()

/** What a lane does with a snapshot: a body in the store, and a row that is good. */
async function take(operation: OperationRow, bytes = randomBytes(1000), digest = randomBytes(32).toString('hex')) {
  const { db, store } = api()
  const segmentId = await segments.allocateSegment(db)
  const { size, sha256 } = await store.put(segmentId, Readable.from([bytes]))
  await transaction(db, trx => markSnapshotGood(trx, operation.id, { segmentId, size, sha256, digest }))
}

async function byLane(operation: OperationRow) {
  if (operation.kind === 'snapshot') await take(operation)
  return { state: 'success' } as const
}

const app = async (plan = 'standard-4') => {
  const ana = await api().makeUser({ plan })
  const made = await api().makeApp(ana)
  return { ana, app: made, path: `/v2/apps/${made.id}/snapshots` }
}

test.beforeEach(() => {
  lanesWork()
  api().lanes.outcome = byLane
})

function lanesWork() {
  api().lanes.asleep = false
  api().services.timeouts = { ...commandTimeouts, claimMs: 20_000, holdMs: 30_000, backgroundMs: 30_000 }
}

/** Nobody takes up what is queued, and callers wait for moments only. */
function lanesSleep() {
  api().lanes.asleep = true
  callersHurry()
}

function callersHurry() {
  api().services.timeouts = { ...commandTimeouts, claimMs: 300, holdMs: 1500, backgroundMs: 500 }
}

test.serial('a snapshot is answered with its link, listed with it, and downloaded by it', async t => {
  const { ana, app: made, path } = await app()
  const bytes = randomBytes(5000)
  api().lanes.outcome = async operation => {
    await take(operation, bytes)
    return { state: 'success' }
  }
  const created = await api().as(ana).post(path)
  t.is(created.status, 200, created.text)
  const { url, key } = created.body.response
  t.regex(key, /^Expires=\d{10}&Signature=[\w-]{43}&versionId=[\w-]{32}$/)
  const [listed] = (await api().as(ana).get(path)).body.response
  t.like(listed, {
    name: `${made.id}_javascript_manual`,
    size: 5000,
    key,
    url,
    runtime: 'javascript',
    origin: 'manual',
  })
  t.is(url, `${api().services.config.urls.files}/applications/${ana.id}/${listed.name}.zip?${key}`)
  t.is(key.split('versionId=')[1], listed.version_id)
  const download = await fetched(url)
  t.is(download.status, 200)
  t.deepEqual(Buffer.from(await download.arrayBuffer()), bytes)
  t.is(download.headers.get('content-disposition'), `attachment; filename="${listed.name}.zip"`)
  t.is(download.headers.get('x-content-type-options'), 'nosniff')
  const account = await api().as(ana).get('/v2/users/snapshots')
  t.deepEqual(account.body.response, [listed])
})

const fetched = (url: string, init?: RequestInit) =>
  fetch(url.replace(api().services.config.urls.files, api().filesUrl), init)

async function snapshotOf(user: TestUser, path: string) {
  const created = await api().as(user).post(path)
  if (created.status !== 200) throw new Error(created.text)
  return { url: created.body.response.url as string, listed: (await api().as(user).get(path)).body.response[0] }
}

test.serial('links support ranges and HEAD, and every changed link is refused', async t => {
  const { ana, path } = await app()
  const bytes = randomBytes(1000)
  api().lanes.outcome = async operation => {
    await take(operation, bytes)
    return { state: 'success' }
  }
  const { url } = await snapshotOf(ana, path)
  const ranged = async (range: string, more = {}) => {
    const answer = await fetched(url, { headers: { range, ...more } })
    return [answer.status, answer.headers.get('content-range'), Buffer.from(await answer.arrayBuffer())] as const
  }
  t.deepEqual(await ranged('bytes=10-19'), [206, 'bytes 10-19/1000', bytes.subarray(10, 20)])
  t.deepEqual(await ranged('bytes=990-'), [206, 'bytes 990-999/1000', bytes.subarray(990)])
  t.deepEqual(await ranged('bytes=-5'), [206, 'bytes 995-999/1000', bytes.subarray(995)])
  t.deepEqual((await ranged('bytes=1000-')).slice(0, 2), [416, 'bytes */1000'])
  t.is((await ranged('bytes=0-1,5-6'))[0], 200)
  t.is((await ranged('bytes=0-1', { 'if-range': '"another"' }))[0], 200)
  const head = await fetched(url, { method: 'HEAD' })
  t.deepEqual([head.status, head.headers.get('content-length')], [200, '1000'])
  const changed = [
    url.replace(/Expires=\d/, 'Expires=9'),
    url.replace(/Signature=./, match => (match.endsWith('A') ? 'Signature=B' : 'Signature=A')),
    url.replace(/versionId=./, match => (match.endsWith('A') ? 'versionId=B' : 'versionId=A')),
    url.replace('_javascript_', '_python_'),
    url.replace(`/${ana.id}/`, `/${'1'.repeat(18)}/`),
    url.replace('/applications/', '/databases/'),
    `${url}&versionId=x`,
    url.split('?')[0]!,
  ]
  const actual = await Promise.all(
    changed.map(async link => {
      const answer = await fetched(link)
      return `${answer.status} ${await answer.text()}`
    }),
  )
  t.deepEqual([...new Set(actual)], ['404 Not found\n'])
  t.is((await fetched(url, { method: 'POST' })).status, 404)
})

test.serial('a download that goes on after a later snapshot has the same files joins no two archives', async t => {
  const { ana, path } = await app()
  const { db, store } = api()
  const [first, second] = [randomBytes(1000), randomBytes(1000)]
  const taking = [first, second]
  api().lanes.outcome = async operation => {
    await take(operation, taking.shift(), 'the same files')
    return { state: 'success' }
  }
  const { url } = await snapshotOf(ana, path)
  const begun = await fetched(url, { headers: { range: 'bytes=0-499' } })
  const { segment_id: before } = await db('snapshots').where({ owner_id: ana.id }).first('segment_id')
  await snapshotOf(ana, path)
  const rest = await fetched(url, { headers: { range: 'bytes=500-', 'if-range': begun.headers.get('etag')! } })
  t.is(rest.status, 200)
  t.deepEqual(Buffer.from(await rest.arrayBuffer()), second)

  const released = db('segments').where({ id: before })
  t.is((await released.clone().first()).refs, 0)
  await sweep({ db, store }, { unreferencedSeconds: 0 })
  t.truthy(await store.head(before), 'it may still be read')
  await released.clone().update({ zero_since: db.raw(`zero_since - interval '1 hour'`) })
  await sweep({ db, store })
  t.is(await store.head(before), null)
})

test.serial('a slow snapshot continues: 202, then 409, then it is listed', async t => {
  const { ana, path } = await app()
  callersHurry()
  let finish = () => {}
  const mayEnd = new Promise<void>(resolve => {
    finish = resolve
  })
  api().lanes.outcome = async operation => {
    await mayEnd
    return byLane(operation)
  }
  const answer = await api().as(ana).post(path)
  t.deepEqual([answer.status, answer.body.status, answer.body.code], [202, 'error', 'SNAPSHOT_PROCESSING'])
  t.is((await api().as(ana).post(path)).body.code, 'SNAPSHOT_IN_PROGRESS')
  finish()
  await until(async () => (await api().as(ana).get(path)).body.response.length === 1)
  t.is(
    (
      await api()
        .db('snapshots')
        .where({ operation_id: answer.headers.get('x-operation-id') })
        .first()
    ).state,
    'good',
  )
})

async function until(done: () => Promise<boolean>) {
  for (const end = Date.now() + 10_000; !(await done()); await sleep(50)) if (Date.now() > end) throw new Error('late')
}

test.serial('an unclaimed snapshot is never expired by its caller', async t => {
  const { ana, path } = await app()
  lanesSleep()
  const answer = await api().as(ana).post(path)
  t.is(answer.status, 202)
  const id = answer.headers.get('x-operation-id')
  t.is((await api().db('operations').where({ id }).first()).state, 'queued')
})

test.serial('a failed snapshot is reported, is not listed, and does not count for the day', async t => {
  const { ana, path } = await app('hobby-1')
  api().lanes.outcome = async operation => {
    await markSnapshotFailed(api().db, operation.id)
    return { state: 'error', code: 'ACTION_FAILED', message: 'The disk is full.' }
  }
  const answer = await api().as(ana).post(path)
  t.like(answer.body, { status: 'error', code: 'SNAPSHOT_FAILED', message: 'The disk is full.' })
  t.is(answer.status, 404)
  t.deepEqual((await api().as(ana).get(path)).body.response, [])
  api().lanes.outcome = byLane
  for (let n = 0; n < 8; n++) t.is((await api().as(ana).post(path)).status, 200)
  const ninth = await api().as(ana).post(path)
  t.deepEqual([ninth.status, ninth.body.code], [429, 'DAILY_SNAPSHOTS_LIMIT_REACHED'])
  const wait = Number(ninth.headers.get('retry-after'))
  t.true(wait > 86_000 && wait <= 86_400, String(wait))
  const other = await api().makeApp(ana)
  t.is((await api().as(ana).post(`/v2/apps/${other.id}/snapshots`)).status, 429, 'the plan is the account’s')
  await api()
    .db('snapshots')
    .where({ owner_id: ana.id })
    .update({ created_at: new Date(Date.now() - 86_500_000) })
  t.is((await api().as(ana).post(path)).status, 200)
})

test.serial(
  'ten concurrent snapshots of one application are one; those of several applications never exceed the plan',
  async t => {
    const { ana, path } = await app('hobby-1')
    const codes = (answers: Answer[]) => answers.map(answer => answer.body.code ?? answer.status).sort()
    const same = await Promise.all(Array.from({ length: 10 }, () => api().as(ana).post(path)))
    t.true(same.filter(answer => answer.status === 200).length >= 1)
    t.deepEqual([...new Set(codes(same))].sort(), [200, 'SNAPSHOT_IN_PROGRESS'].slice(0, new Set(codes(same)).size))
    await api().db('snapshots').where({ owner_id: ana.id }).delete()
    const apps = await Promise.all(Array.from({ length: 12 }, () => api().makeApp(ana)))
    const all = await Promise.all(apps.map(({ id }) => api().as(ana).post(`/v2/apps/${id}/snapshots`)))
    t.is(all.filter(answer => answer.status === 200).length, 8, codes(all).join())
  },
)

test.serial('an Idempotency-Key creates one snapshot, even if its first answer was lost', async t => {
  const { ana, path } = await app()
  const keyed = () => api().as(ana).post(path, undefined, { 'idempotency-key': 'nightly' })
  const first = await keyed()
  const again = await keyed()
  t.is(again.headers.get('idempotent-replayed'), 'true')
  t.deepEqual(again.body, first.body)
  t.is((await api().as(ana).get(path)).body.response.length, 1)
  lanesSleep()
  const slow = () => api().as(ana).post(path, undefined, { 'idempotency-key': 'slow' })
  const unfinished = await slow()
  t.is(unfinished.status, 202)
  const repeated = await slow()
  t.deepEqual([repeated.status, repeated.body.code], [202, 'SNAPSHOT_PROCESSING'])
  t.truthy(unfinished.headers.get('x-operation-id'))
  t.is(repeated.headers.get('x-operation-id'), unfinished.headers.get('x-operation-id'))
  t.is((await api().db('snapshots').where({ owner_id: ana.id })).length, 2)
})

test.serial('the link of a snapshot is in no row', async t => {
  const { ana, app: made, path } = await app()
  const database = await api().makeDatabase(ana)
  for (const at of [path, `/v2/databases/${database.id}/snapshots`]) {
    const keyed = () => api().as(ana).post(at, undefined, { 'idempotency-key': at })
    const { key } = (await keyed()).body.response
    t.is((await keyed()).body.response.key, key)
    const signature = new URLSearchParams(key).get('Signature') ?? ''
    t.true(signature.length > 20)
    t.deepEqual(await tablesWith(api().db, searchFor([signature])), [])
  }
  t.true((await tablesWith(api().db, searchFor([`POST /v2/apps/${made.id}/snapshots`]))).includes('idempotency_keys'))
})

test.serial(
  'an answer that an earlier version has stored is repeated, and none for a snapshot that was deleted',
  async t => {
    const { ana, path } = await app()
    const keyed = () => api().as(ana).post(path, undefined, { 'idempotency-key': 'k' })
    const first = await keyed()
    const stored = api().db('idempotency_keys').where({ user_id: ana.id, key: 'k' })
    const { body } = await stored.clone().first()
    await stored.clone().update({ body: JSON.stringify(JSON.stringify(first.body.response)) })
    t.deepEqual((await keyed()).body, first.body)
    await stored.clone().update({ body: JSON.stringify(body) })
    t.deepEqual((await keyed()).body, first.body)
    await api().db('snapshots').where({ owner_id: ana.id }).delete()
    t.is((await keyed()).body.code, 'SNAPSHOT_FAILED')
  },
)

test.serial('an unreachable host takes no snapshots', async t => {
  const { ana, app: made, path } = await app()
  await api()
    .db('hosts')
    .insert({ id: 'silent', address: '127.0.0.1', memory_mb: 1, disk_mb: 1, last_seen_at: new Date(0) })
  await api().db('apps').where({ id: made.id }).update({ host_id: 'silent' })
  const refused = [
    await api().as(ana).post(path),
    await restore(ana, path, { snapshotId: `${made.id}_x_manual`, versionId: 'v'.repeat(32) }),
  ]
  t.deepEqual(
    refused.map(answer => [answer.status, answer.body.code]),
    Array(2).fill([503, 'CLUSTER_UNAVAILABLE']),
  )
})

const restore = (user: TestUser, path: string, body: object) =>
  api().as(user).post(`${path}/restore`, JSON.stringify(body))

test.serial('a restore needs a snapshot and its version; every other body is refused with its own code', async t => {
  const { ana, app: made, path } = await app()
  const other = await app()
  const { listed } = await snapshotOf(ana, path)
  const strange = await snapshotOf(other.ana, other.path)
  const snapshotId = listed.name
  const versionId = listed.version_id
  const cases: [object, string][] = [
    [{}, 'MISSING_PARAMETERS'],
    [{ snapshotId }, 'MISSING_PARAMETERS'],
    [{ versionId }, 'MISSING_PARAMETERS'],
    [{ snapshotId: 5, versionId }, 'INVALID_SNAPSHOT_ID'],
    [{ snapshotId: strange.listed.name, versionId }, 'INVALID_SNAPSHOT_ID'],
    [{ snapshotId: `${made.id}_../x`, versionId }, 'INVALID_SNAPSHOT_ID'],
    [{ snapshotId, versionId: 'short' }, 'INVALID_VERSION_ID'],
    [{ snapshotId, versionId: `${'a'.repeat(31)} ` }, 'INVALID_VERSION_ID'],
    [{ snapshotId, versionId: 'v'.repeat(32) }, 'SNAPSHOT_NOT_FOUND'],
    [{ snapshotId: `${made.id}_python_manual`, versionId }, 'SNAPSHOT_NOT_FOUND'],
    [{ snapshotId, versionId: strange.listed.version_id }, 'SNAPSHOT_NOT_FOUND'],
  ]
  for (const [body, code] of cases) t.is((await restore(ana, path, body)).body.code, code, JSON.stringify(body))
  t.deepEqual((await api().as(ana).get(`${path}/restore`)).body.response, { state: 'none' })
  t.is((await restore(ana, path, { snapshotId, versionId })).text, '{"status":"success"}')
  t.like((await api().as(ana).get(`${path}/restore`)).body.response, { state: 'success' })
  const deployments = (await api().as(ana).get(`/v2/apps/${made.id}/deployments`)).body.response
  t.is(deployments.length, 1, 'a restore is not listed among deploys')
})

test.serial(
  'an application of a forgotten host is restored elsewhere, where the plan and a host have room',
  async t => {
    const { ana, app: made, path } = await app()
    const { listed } = await snapshotOf(ana, path)
    const { db } = api()
    await db('hosts').insert({
      ...{ id: 'gone', address: '127.0.0.1', memory_mb: 1, disk_mb: 1 },
      ...{ last_seen_at: new Date(0), forgotten_at: new Date() },
    })
    await db('apps').where({ id: made.id }).update({ host_id: 'gone', lost_with: 'gone' })
    const actual = async () => {
      const { status, body } = await restore(ana, path, { snapshotId: listed.name, versionId: listed.version_id })
      return [status, body.code]
    }
    const { plan } = await db('users').where({ id: ana.id }).first('plan')
    await db('users').where({ id: ana.id }).update({ plan: 'free' })
    t.deepEqual(await actual(), [400, 'INSUFFICIENT_MEMORY'])
    await db('users').where({ id: ana.id }).update({ plan })
    const host = db('hosts').where({ id: 'h1' })
    const before = await host.clone().first('memory_mb')
    await host.clone().update({ memory_mb: 1 })
    t.deepEqual(await actual(), [400, 'CLUSTER_SELECTION_FAILED'])
    await host.clone().update({ ...before, draining: true })
    t.deepEqual(await actual(), [503, 'CLUSTER_MAINTENANCE_TRY_LATER'])
    await host.clone().update({ draining: false })
    t.deepEqual(await actual(), [200, undefined])
    t.like(await db('apps').where({ id: made.id }).first(), { host_id: 'h1' })
  },
)

test.serial('while a restore waits or runs, nothing else may change the application', async t => {
  const { ana, app: made, path } = await app()
  const { listed } = await snapshotOf(ana, path)
  const wanted = { snapshotId: listed.name, versionId: listed.version_id }
  lanesSleep()
  const slow = await restore(ana, path, wanted)
  t.deepEqual([slow.status, slow.body.code], [202, 'SNAPSHOT_RESTORE_PROCESSING'])
  t.like((await api().as(ana).get(`${path}/restore`)).body.response, { state: 'queued' })
  const refused = [
    await api().as(ana).delete(`/v2/apps/${made.id}`),
    await api().as(ana).post(path),
    await restore(ana, path, wanted),
  ]
  for (const answer of refused) t.deepEqual([answer.status, answer.body.code], [403, 'RESTORE_IN_PROGRESS'])
  t.truthy(refused[0]!.body.message)
  const id = slow.headers.get('x-operation-id')!
  await api()
    .db('operations')
    .where({ id })
    .update({ state: 'running', started_at: new Date(), step: 'changing versions' })
  t.like((await api().as(ana).get(`${path}/restore`)).body.response, { state: 'running', step: 'changing versions' })
  t.is((await api().as(ana).delete(`/v2/apps/${made.id}`)).status, 403)
  await finishOperation(api().db, id, { state: 'error', code: 'HEALTH_CHECK_FAILED', message: 'It ended.' })
  const actual = (await api().as(ana).get(`${path}/restore`)).body.response
  t.like(actual, { state: 'error', code: 'SNAPSHOT_RESTORE_FAILED', message: 'HEALTH_CHECK_FAILED: It ended.' })
  t.true(actual.finished_at >= actual.started_at)
  await api()
    .db('operations')
    .where({ id })
    .update({ finished_at: new Date(Date.now() - 3_601_000) })
  t.deepEqual((await api().as(ana).get(`${path}/restore`)).body.response, { state: 'none' })
})

for (const [code, actual] of [
  ['SNAPSHOT_CORRUPT', 'SNAPSHOT_CORRUPT'],
  ['DEPLOY_CANCELLED', 'RESTORE_INTERRUPTED'],
  ['BUILD_FAILED', 'SNAPSHOT_RESTORE_FAILED'],
] as const)
  test.serial(`a restore that ends with ${code} is reported as ${actual}`, async t => {
    const { ana, path } = await app()
    const { listed } = await snapshotOf(ana, path)
    const state = code === 'DEPLOY_CANCELLED' ? 'cancelled' : 'error'
    api().lanes.outcome = () => ({ state, code, message: 'words' })
    const answer = await restore(ana, path, { snapshotId: listed.name, versionId: listed.version_id })
    t.deepEqual([answer.status, answer.body.code], [404, 'SNAPSHOT_RESTORE_FAILED'])
    t.like((await api().as(ana).get(`${path}/restore`)).body.response, { state: 'error', code: actual })
  })

test.serial('of a concurrent deletion and restore only one is accepted', async t => {
  for (let round = 0; round < 5; round++) {
    const { ana, app: made, path } = await app()
    const { listed } = await snapshotOf(ana, path)
    lanesSleep()
    await Promise.all([
      api().as(ana).delete(`/v2/apps/${made.id}`),
      restore(ana, path, { snapshotId: listed.name, versionId: listed.version_id }),
    ])
    const asked = await api().db('operations').where({ target_id: made.id }).whereIn('kind', ['delete', 'restore'])
    t.is(asked.length, 1)
    lanesWork()
  }
})

test.serial('a restore is refused while a snapshot is in progress', async t => {
  const { ana, path } = await app()
  const { listed } = await snapshotOf(ana, path)
  lanesSleep()
  t.is((await api().as(ana).post(path)).status, 202)
  const answer = await restore(ana, path, { snapshotId: listed.name, versionId: listed.version_id })
  t.deepEqual([answer.status, answer.body.code], [409, 'SNAPSHOT_IN_PROGRESS'])
})

test.serial('snapshots of a deleted application stay with its owner until they expire', async t => {
  const { ana, app: made, path } = await app()
  const { db, services } = api()
  const admin = await api().makeUser()
  await makeWorkspace(db, ana, { members: [[admin, 'admin']], apps: [made] })
  await db('users').where({ id: ana.id }).update({ plan: 'hobby-1' })
  const { url, listed } = await snapshotOf(ana, path)
  for (let n = 1; n < 8; n++) t.is((await api().as(ana).post(path)).status, 200)
  t.is((await api().as(admin).get(path)).body.response.length, 8)
  t.is((await api().as(ana).delete(`/v2/apps/${made.id}`)).status, 200)

  const versions = async (who: TestUser | string) =>
    (await api().as(who).get('/v2/users/snapshots')).body.response.map((row: { version_id: string }) => row.version_id)
  const mine = await versions(ana)
  t.deepEqual([mine.length, mine.includes(listed.version_id)], [8, true])
  t.deepEqual(await versions((await api().makeKey(ana, { resources: [made.id] })).key), mine)
  t.deepEqual(await versions(admin), [], 'of a shared application too they are its owner’s')
  for (const who of [ana, admin]) t.is((await api().as(who).get(path)).body.code, 'APP_NOT_FOUND')
  t.is((await fetched(url)).status, 200)
  const next = await api().makeApp(ana)
  t.is((await api().as(ana).post(`/v2/apps/${next.id}/snapshots`)).body.code, 'DAILY_SNAPSHOTS_LIMIT_REACHED')
  const into = await restore(ana, `/v2/apps/${next.id}/snapshots`, {
    snapshotId: listed.name,
    versionId: listed.version_id,
  })
  t.is(into.body.code, 'INVALID_SNAPSHOT_ID', 'it is uploaded as a new application instead')

  const bodies = await db('snapshots').where({ target_id: made.id }).pluck('segment_id')
  await db('snapshots')
    .where({ target_id: made.id })
    .update({ created_at: new Date(Date.now() - 31 * 86_400_000) })
  await sweepSnapshots(db)
  t.is((await fetched(url)).status, 404)
  t.deepEqual(await db('segments').whereIn('id', bodies).where('refs', '>', 0), [])
  services.accountSnapshots = new TtlCache(0)
  t.deepEqual(await versions(ana), [])
})

test.serial('the list of an account needs scope and plan, and shows what the key may see', async t => {
  const { ana, app: made, path } = await app()
  await snapshotOf(ana, path)
  const of = (query = '', who: TestUser | string = ana) => api().as(who).get(`/v2/users/snapshots${query}`)
  t.is((await of('?scope=applications')).body.response.length, 1)
  t.deepEqual((await of('?scope=databases')).body.response, [])
  t.is((await of('?scope=everything')).body.code, 'INVALID_SCOPE')
  const limited = await api().makeKey(ana, { resources: [(await api().makeApp(ana)).id] })
  t.deepEqual((await of('', limited.key)).body.response, [])
  const mine = await api().makeKey(ana, { resources: [made.id] })
  t.is((await of('', mine.key)).body.response.length, 1)
  const free = await api()
    .as(await api().makeUser({ plan: 'free' }))
    .get('/v2/users/snapshots')
  t.deepEqual([free.status, free.body.code], [402, 'UPGRADE_REQUIRED'])
})
