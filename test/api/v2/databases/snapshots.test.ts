import { randomBytes } from 'node:crypto'
import test from 'ava'
import { findOperation } from '../../../../db/operations/operations.ts'
import { recordSnapshotProof } from '../../../../db/snapshots/snapshots.ts'
import { commandTimeouts } from '../../../../policy/timeouts.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'

const api = testApi()

test.beforeEach(() => {
  Object.assign(api().databaseLanes, { asleep: false, outcome: () => ({ state: 'success' }) })
  api().services.timeouts = commandTimeouts
})

const post = (user: TestUser, path: string, body: object = {}) =>
  api()
    .as(user)
    .request('POST', path, { body: JSON.stringify(body) })

/** A good snapshot of this database, as its host leaves it. */
async function goodSnapshot(
  ownerId: string,
  databaseId: string,
  runtime = 'redis',
  engineVersion: string | null = null,
) {
  const version = randomBytes(16).toString('hex')
  const name = `${databaseId}_${runtime}_manual`
  const { db } = api()
  const operation = { id: randomBytes(16).toString('hex'), target_type: 'database', target_id: databaseId }
  await db('operations').insert({ ...operation, kind: 'snapshot', state: 'success', owner_id: ownerId, actor: ownerId })
  const row = { id: version, target_type: 'database', target_id: databaseId, owner_id: ownerId, name, runtime }
  const made = { operation_id: operation.id, origin: 'manual', state: 'good', size: 10, engine_version: engineVersion }
  await db('snapshots').insert({ ...row, ...made })
  await recordSnapshotProof(db, operation.id, { contents: 'c'.repeat(64) })
  return { snapshotId: name, versionId: version }
}

test.serial('a snapshot is listed with its link, for the database and for the account', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const { snapshotId, versionId } = await goodSnapshot(ana.id, id)
  const listed = { name: snapshotId, version_id: versionId, runtime: 'redis', origin: 'manual', size: 10 }
  const [own] = (await api().as(ana).get(`/v2/databases/${id}/snapshots`)).body.response
  t.like(own, listed)
  t.true(own.url.includes(`/databases/`), own.url)
  const [ofAccount] = (await api().as(ana).get('/v2/users/snapshots?scope=databases')).body.response
  t.like(ofAccount, listed)
  t.deepEqual((await api().as(ana).get('/v2/users/snapshots')).body.response, [])
})

test.serial('a snapshot or restore is refused while another one waits or runs', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const snapshot = await goodSnapshot(ana.id, id)
  api().databaseLanes.asleep = true
  api().services.timeouts = { ...commandTimeouts, backgroundMs: 100 }
  const taken = await post(ana, `/v2/databases/${id}/snapshots`)
  t.deepEqual([taken.status, taken.body.code], [202, 'SNAPSHOT_PROCESSING'])
  t.is((await post(ana, `/v2/databases/${id}/snapshots`)).body.code, 'SNAPSHOT_IN_PROGRESS')
  t.is((await post(ana, `/v2/databases/${id}/snapshots/restore`, snapshot)).body.code, 'SNAPSHOT_IN_PROGRESS')
})

test.serial('a restore has the snapshot of the same owner and type, and its state is reported', async t => {
  const ana = await api().makeUser()
  const bea = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const path = `/v2/databases/${id}/snapshots/restore`
  t.deepEqual((await api().as(ana).get(path)).body.response, { state: 'none' })
  const missing = { snapshotId: `${id}_redis_manual`, versionId: 'x'.repeat(32) }
  t.is((await post(ana, path, missing)).body.code, 'SNAPSHOT_NOT_FOUND')
  t.is((await post(ana, path)).body.code, 'MISSING_PARAMETERS')
  const foreign = await goodSnapshot(bea.id, 'b'.repeat(32))
  t.is((await post(ana, path, foreign)).body.code, 'SNAPSHOT_NOT_FOUND')
  const other = await goodSnapshot(ana.id, 'd'.repeat(32), 'mysql')
  t.deepEqual(
    [(await post(ana, path, other)).status, (await post(ana, path, other)).body.code],
    [400, 'SNAPSHOT_DATABASE_MISMATCH'],
  )
  const deleted = await goodSnapshot(ana.id, 'e'.repeat(32))
  const answer = await post(ana, path, deleted)
  t.is(answer.status, 200, answer.text)
  const operation = await findOperation(api().db, answer.headers.get('x-operation-id') ?? '')
  t.like(operation, { target_id: id, input: { snapshotId: deleted.versionId } })
  t.like((await api().as(ana).get(path)).body.response, { state: 'success' })
})

test.serial('a snapshot of a newer version is refused, one of an older version is not', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana, { engine: 'redis' })
  const path = `/v2/databases/${id}/snapshots/restore`
  await api().db('databases').where({ id }).update({ version: '7' })
  const newer = await goodSnapshot(ana.id, 'd'.repeat(32), 'redis', '8')
  t.is((await post(ana, path, newer)).body.code, 'SNAPSHOT_DATABASE_MISMATCH')
  const same = await goodSnapshot(ana.id, 'd'.repeat(32), 'redis', '7')
  t.is((await post(ana, path, same)).status, 200)
  await api().db('databases').where({ id }).update({ version: '10' })
  const older = await goodSnapshot(ana.id, 'd'.repeat(32), 'redis', '8')
  t.is((await post(ana, path, older)).status, 200)
})

test.serial('a key that is limited to one database does not read the snapshot of another through it', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const another = await api().makeDatabase(ana)
  const { key } = await api().makeKey(ana, { resources: [id] })
  const restore = (snapshot: object) =>
    api()
      .as(key)
      .request('POST', `/v2/databases/${id}/snapshots/restore`, { body: JSON.stringify(snapshot) })
  const refused = await restore(await goodSnapshot(ana.id, another.id))
  t.deepEqual([refused.status, refused.body.code], [403, 'RESOURCE_NOT_ALLOWED'])
  t.is((await restore(await goodSnapshot(ana.id, id))).status, 200)
})

test.serial('a restore that fails is SNAPSHOT_RESTORE_FAILED with the reason', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const snapshot = await goodSnapshot(ana.id, id)
  api().databaseLanes.outcome = () => ({ state: 'error', code: 'SNAPSHOT_CORRUPT', message: 'It differs.' })
  const answer = await post(ana, `/v2/databases/${id}/snapshots/restore`, snapshot)
  t.is(answer.body.code, 'SNAPSHOT_RESTORE_FAILED')
  const state = (await api().as(ana).get(`/v2/databases/${id}/snapshots/restore`)).body.response
  t.like(state, { state: 'error', code: 'SNAPSHOT_CORRUPT', message: 'It differs.' })
})
