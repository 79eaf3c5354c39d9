import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { announceOperationEnd, claimNextOperation } from '../../../../db/operations/operations.ts'
import { commandTimeouts } from '../../../../policy/timeouts.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'

const api = testApi({
  services: () => ({ timeouts: { ...commandTimeouts, claimMs: 400, holdMs: 1500, backgroundMs: 1500 } }),
})

test.serial('an operation that is not claimed in time expires, so its answer stays true', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  api().lanes.asleep = true
  const answer = await api().as(ana).post(`/v2/apps/${app.id}/stop`)
  t.is(answer.text, '{"status":"error","code":"ACTION_FAILED"}')
  const row = await api()
    .db('operations')
    .where({ id: answer.headers.get('x-operation-id') })
    .first()
  t.is(row.state, 'expired')
  t.is(await claimNextOperation(api().db, { type: 'app', id: app.id }), undefined)
})

test.serial('a claimed operation is waited for, but no longer than a client waits', async t => {
  t.is(commandTimeouts.holdMs, 95_000, 'clients wait for 120 s')
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  api().lanes.asleep = false
  api().lanes.outcome = async () => {
    await new Promise(resolve => setTimeout(resolve, 900))
    return { state: 'success' }
  }
  t.is((await api().as(ana).post(`/v2/apps/${app.id}/start`)).status, 200)
  api().lanes.outcome = () => new Promise(() => {})
  const startedAt = performance.now()
  const answer = await api().as(ana).post(`/v2/apps/${app.id}/stop`)
  t.is(answer.body.code, 'ACTION_FAILED')
  t.true(performance.now() - startedAt < 2500)
  // Its lane begins nothing more by then (test/workflows/command-ends.test.ts).
  const { rows } = await api().db.raw(
    `select extract(epoch from end_before - created_at)::float8 as seconds from operations where id = ?`,
    [answer.headers.get('x-operation-id')],
  )
  t.deepEqual(rows, [{ seconds: 1.5 }])
})

test.serial('an operation that is stored and not confirmed yet has not ended', async t => {
  const { db, as, makeUser, makeApp, lanes } = api()
  const ana = await makeUser()
  const app = await makeApp(ana)
  lanes.asleep = true
  const mine = () => db('operations').where({ target_id: app.id, kind: 'stop' })
  const answer = as(ana).post(`/v2/apps/${app.id}/stop`)
  await comesTrue(async () => (await mine().where({ state: 'queued' }).update({ state: 'accepting' })) > 0)
  const { id } = await mine().first('id')
  await announceOperationEnd(db, id)
  await sleep(600)
  await mine().update({ state: 'success' })
  await announceOperationEnd(db, id)
  t.is((await answer).status, 200)
})

test.serial('an unclaimed deletion is DELETE_ERROR', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  api().lanes.asleep = true
  const answer = await api().as(ana).delete(`/v2/apps/${app.id}`)
  t.deepEqual([answer.status, answer.body.code], [404, 'DELETE_ERROR'])
  t.is((await api().as(ana).get(`/v2/apps/${app.id}`)).status, 200)
})

test.serial('a deletion that still runs when its caller must be answered is in doubt', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  api().lanes.asleep = false
  api().lanes.outcome = () => new Promise(() => {})
  const answer = await api().as(ana).delete(`/v2/apps/${app.id}`)
  t.deepEqual([answer.status, answer.body.code], [503, 'DATABASE_UNAVAILABLE'])
})

test.serial('a client that disconnects does not cancel its command', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  api().lanes.asleep = false
  api().lanes.outcome = async () => {
    await new Promise(resolve => setTimeout(resolve, 200))
    return { state: 'success' }
  }
  const leaving = fetch(`${api().url}/v2/apps/${app.id}/restart`, {
    method: 'POST',
    headers: { authorization: ana.key },
    signal: AbortSignal.timeout(100),
  })
  await t.throwsAsync(leaving, { any: true })
  const restart = () => api().db('operations').where({ target_id: app.id, kind: 'restart' }).first()
  await comesTrue(async () => Boolean((await restart())?.finished_at))
  t.is((await restart())?.state, 'success')
})
