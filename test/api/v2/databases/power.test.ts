import test from 'ava'
import { startDatabase, stopDatabase } from '../../../../api/v2/databases/power.ts'
import { loadDatabase } from '../../../../db/databases/databases.ts'
import { findOperation } from '../../../../db/operations/operations.ts'
import { databaseLostWith } from '../../../../policy/databases/database-problems.ts'
import { commandTimeouts } from '../../../../policy/timeouts.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'

const api = testApi()

test.beforeEach(() => {
  Object.assign(api().databaseLanes, { asleep: false, outcome: () => ({ state: 'success' }) })
  api().services.timeouts = commandTimeouts
})

test.serial('start and stop answer when the outcome is known, and any body is ignored', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  for (const [kind, status] of [
    ['stop', 'exited'],
    ['start', 'running'],
  ] as const)
    for (const body of [undefined, '', '{"x":1}', 'nonsense']) {
      const answer = await api().as(ana).post(`/v2/databases/${id}/${kind}`, body)
      t.is(answer.text, '{"status":"success"}', kind)
      const operation = await findOperation(api().db, answer.headers.get('x-operation-id') ?? '')
      t.like(operation, { kind: kind as never, target_type: 'database', state: 'success', actor: ana.id })
      t.is((await loadDatabase(api().db, id))?.status, status)
    }
})

test.serial('every declared refusal has status and code only, and every other failure is ACTION_FAILED', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  for (const [kind, { terse }] of Object.entries({ start: startDatabase, stop: stopDatabase }))
    for (const code of [...terse!, 'BUILD_FAILED', undefined]) {
      api().databaseLanes.outcome = () => ({ state: 'error', code, message: 'in words' })
      const answer = await api().as(ana).post(`/v2/databases/${id}/${kind}`)
      const answered = (terse as readonly (string | undefined)[]).includes(code) ? code : 'ACTION_FAILED'
      t.deepEqual([answer.status, answer.text], [409, `{"status":"error","code":"${answered}"}`], `${kind} ${code}`)
    }
  t.true(startDatabase.terse!.length > 3)
})

test.serial('a command that no worker claims in time expires, and is ACTION_FAILED', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  api().services.timeouts = { ...commandTimeouts, claimMs: 200, holdMs: 5000 }
  api().databaseLanes.asleep = true
  const answer = await api().as(ana).post(`/v2/databases/${id}/stop`)
  t.is(answer.text, '{"status":"error","code":"ACTION_FAILED"}')
  const operation = await findOperation(api().db, answer.headers.get('x-operation-id') ?? '')
  t.like(operation, { state: 'expired', started_at: null })
  t.is((await loadDatabase(api().db, id))?.status, 'running')
})

test.serial('a start that goes on when its caller must be answered is in doubt, and a stop has failed', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  api().services.timeouts = { ...commandTimeouts, holdMs: 500 }
  let end = () => {}
  const ended = new Promise<void>(resolve => {
    end = resolve
  })
  api().databaseLanes.outcome = async () => {
    await ended
    return { state: 'success' }
  }
  const started = await api().as(ana).post(`/v2/databases/${id}/start`)
  t.deepEqual([started.status, started.body.code], [503, 'DATABASE_UNAVAILABLE'])
  const stateOf = async ({ headers }: typeof started) =>
    (await findOperation(api().db, headers.get('x-operation-id') ?? ''))?.state
  t.is(await stateOf(started), 'running')
  const stopped = await api().as(ana).post(`/v2/databases/${id}/stop`)
  t.is(stopped.body.code, 'ACTION_FAILED')
  end()
  for (const answer of [started, stopped]) await comesTrue(async () => (await stateOf(answer)) === 'success')
})

test.serial('a database that is being restored is neither started nor stopped', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const restore = { id: 'f'.repeat(32), target_type: 'database', target_id: id, kind: 'restore', state: 'running' }
  await api()
    .db('operations')
    .insert({ ...restore, owner_id: ana.id, actor: ana.id })
  for (const kind of ['start', 'stop']) {
    const answer = await api().as(ana).post(`/v2/databases/${id}/${kind}`)
    t.deepEqual([answer.status, answer.body.code], [403, 'RESTORE_IN_PROGRESS'], kind)
  }
  t.is((await api().db('operations').where({ target_id: id }).whereIn('kind', ['start', 'stop'])).length, 0)
})

test.serial(
  'a command whose database is deleted meanwhile is answered as one for a database that is not there',
  async t => {
    const ana = await api().makeUser()
    const { id } = await api().makeDatabase(ana)
    api().databaseLanes.outcome = () => ({ state: 'cancelled', code: 'DATABASE_NOT_FOUND' })
    const nowhere = await api()
      .as(ana)
      .post(`/v2/databases/${'0'.repeat(24)}/start`)
    const deleted = await api().as(ana).post(`/v2/databases/${id}/start`)
    t.deepEqual([deleted.status, deleted.text], [404, nowhere.text])
    const resized = await api().as(ana).request('PATCH', `/v2/databases/${id}`, { body: '{"ram":1024}' })
    t.deepEqual([resized.status, resized.text], [404, nowhere.text])
  },
)

test.serial('a silent host is reported immediately for another memory or password, and nothing is stored', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const { db } = api()
  const { host_id: hostId } = await db('databases').where({ id }).first()
  const seen = (at: Date) => db('hosts').where({ id: hostId }).update({ last_seen_at: at })
  const resize = () => api().as(ana).request('PATCH', `/v2/databases/${id}`, { body: '{"ram":1024}' })
  const reset = (what: string) => api().as(ana).post(`/v2/databases/${id}/credentials/reset`, `{"reset":"${what}"}`)
  await seen(new Date(0))
  t.teardown(() => seen(new Date()))
  for (const answer of [await resize(), await reset('password'), await reset('certificate')])
    t.deepEqual([answer.status, answer.body.code], [503, 'CLUSTER_UNAVAILABLE'])
  const renamed = await api().as(ana).request('PATCH', `/v2/databases/${id}`, { body: '{"name":"other"}' })
  t.is(renamed.status, 200, 'a name needs no host')
  t.is((await db('operations').where({ target_id: id }).whereNot({ kind: 'create' })).length, 0)
  await db('databases').where({ id }).update({ status: 'exited' })
  t.is((await resize()).status, 200, 'nor does more memory of what does not run')
  await db('databases').where({ id }).update({ ram_mb: 2048, reserved_mb: 2048 })
  const { status, body } = await resize()
  t.deepEqual(
    [status, body.code],
    [503, 'CLUSTER_UNAVAILABLE'],
    'only an engine can tell whether its data fit into less',
  )
  await db('databases').where({ id }).update({ engine: 'mysql' })
  t.is((await resize()).status, 200, 'of one that has them on disk')
})

test.serial('a database that is lost with its host can only be deleted', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  await api().db('databases').where({ id }).update({ lost_with: 'h9', status: 'exited', started_at: null })
  for (const kind of ['start', 'stop']) {
    const { status, body } = await api().as(ana).post(`/v2/databases/${id}/${kind}`)
    t.deepEqual([status, body], [409, { status: 'error', code: 'ACTION_FAILED' }])
  }
  const resized = await api().as(ana).request('PATCH', `/v2/databases/${id}`, { body: '{"ram":1024}' })
  t.deepEqual([resized.status, resized.body.code], [503, 'CLUSTER_UNAVAILABLE'])
  t.is((await api().as(ana).get(`/v2/databases/${id}/logs`)).body.message, databaseLostWith('h9'))
  const { response } = (await api().as(ana).get(`/v2/databases/${id}/status`)).body
  t.like(response, { status: 'exited', running: false, problem: { code: 'CLUSTER_UNAVAILABLE' } })
  t.is((await api().as(ana).delete(`/v2/databases/${id}`)).status, 200)
})
