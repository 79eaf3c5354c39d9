import test from 'ava'
import { undoOperation } from '../../db/acceptance.ts'
import { transaction } from '../../db/database.ts'
import { type DeployRequest, queueDeploy } from '../../db/deploys/deploys.ts'
import { allocateSegment } from '../../db/objects/segments.ts'
import { CodedError } from '../../policy/errors.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

test.before('a host that answers however long this takes', async () => {
  const { db } = await database
  await rows(db).host('h1', { memoryMb: 1_000_000 })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
})

async function scene() {
  const { db } = await database
  const make = rows(db)
  const user = await make.user()
  const { app } = await make.app(user.id)
  const deploy = (change: Partial<DeployRequest> = {}) =>
    transaction(db, trx =>
      queueDeploy(trx, {
        ...{ appId: app.id, ownerId: user.id, actor: user.id, trigger: 'upload', revision: 'a'.repeat(40) },
        ...change,
      }),
    ).then(
      queued => (queued ? 'stored' : 'missing'),
      error => (error instanceof CodedError ? error.code : String(error)),
    )
  const stored = async () => Number((await db('deployments').where({ app_id: app.id }).count('* as n'))[0]!.n)
  return { db, app, deploy, stored }
}

test('of 40 concurrent deploys of one application 20 wait, and the others are refused with a retry time', async t => {
  const { deploy, stored, db, app } = await scene()
  const before = await stored()
  const reported = await Promise.all(Array.from({ length: 40 }, (_, n) => deploy({ accepting: n % 2 === 0 })))
  t.is(reported.filter(one => one === 'stored').length, 20)
  t.is(reported.filter(one => one === 'KEEP_CALM').length, 20)
  t.is((await stored()) - before, 20)
  const [first] = await db('operations').where({ target_id: app.id, kind: 'deploy' }).orderBy('seq').select('id')
  await db('operations').where({ id: first.id }).update({ state: 'running' })
  t.deepEqual([await deploy(), await deploy()], ['stored', 'KEEP_CALM'], 'the one that is worked on does not count')
  t.is(await (await scene()).deploy(), 'stored')
})

test('a push supersedes the waiting push of its branch, even when the queue is full', async t => {
  const { deploy } = await scene()
  for (let n = 1; n <= 20; n++) t.is(await deploy({ trigger: 'webhook', branch: `branch-${n}` }), 'stored')
  t.is(await deploy({ trigger: 'webhook', branch: 'branch-21' }), 'KEEP_CALM')
  t.is(await deploy({ trigger: 'webhook', branch: 'branch-7' }), 'stored')
})

test("archives of an application's newest 20 deployments stay, and so do those of waiting ones", async t => {
  const { db, app, deploy } = await scene()
  const arrive = async () => {
    const archive = { segmentId: await allocateSegment(db), bytes: 1, sha256: 'a'.repeat(64) }
    t.is(await deploy({ archive }), 'stored')
  }
  const waits = async () => {
    await arrive()
    return db('deployments').where({ app_id: app.id }).orderBy('release', 'desc').first()
  }
  const waiting = await waits()
  for (let n = 1; n <= 30; n++) {
    await arrive()
    await db('operations')
      .where({ target_id: app.id, state: 'queued' })
      .whereNot({ id: waiting.operation_id })
      .update({ state: 'success', finished_at: new Date() })
  }
  const newest = await db('deployments').where({ app_id: app.id }).orderBy('release', 'desc')
  const stored = newest.filter(row => row.segment_id !== null && row.id !== waiting.id)
  t.deepEqual(
    stored.map(row => row.id),
    newest.slice(0, 20).map(row => row.id),
  )
  t.truthy((await db('deployments').where({ id: waiting.id }).first()).segment_id)
  await db('operations').where({ id: waiting.operation_id }).update({ state: 'success', finished_at: new Date() })
  await arrive()
  t.is((await db('deployments').where({ id: waiting.id }).first()).segment_id, null)
})

test('uploads that are undone leave the archives of the newest 20 deployments', async t => {
  const { db, app, deploy } = await scene()
  const arrive = async (accepting: boolean) => {
    const archive = { segmentId: await allocateSegment(db), bytes: 1, sha256: 'a'.repeat(64) }
    t.is(await deploy({ archive, accepting }), 'stored')
  }
  const ofApp = () => db('operations').where({ target_id: app.id })
  for (let n = 1; n <= 20; n++) {
    await arrive(false)
    await ofApp().where({ state: 'queued' }).update({ state: 'success', finished_at: new Date() })
  }
  const held = () =>
    db('deployments').where({ app_id: app.id }).whereNotNull('segment_id').orderBy('release').pluck('id')
  const newest = (await held()).slice(-20)
  for (let n = 1; n <= 20; n++) {
    await arrive(true)
    if (n % 5) continue
    for (const id of await ofApp().where({ state: 'accepting' }).pluck('id')) t.true(await undoOperation(db, id))
  }
  t.deepEqual((await held()).slice(-20), newest)
})
