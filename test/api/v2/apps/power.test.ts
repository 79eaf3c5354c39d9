import test from 'ava'
import { restartApp, startApp, stopApp } from '../../../../api/v2/apps/power.ts'
import { enqueueOperation, findOperation } from '../../../../db/operations/operations.ts'
import { commandTimeouts } from '../../../../policy/timeouts.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'

const api = testApi()

test.beforeEach(() => {
  api().lanes.outcome = () => ({ state: 'success' })
})

test.serial('start, stop and restart answer when the outcome is known', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  for (const kind of ['start', 'stop', 'restart']) {
    const answer = await api().as(ana).post(`/v2/apps/${app.id}/${kind}`)
    t.is(answer.text, '{"status":"success"}', kind)
    const operation = await findOperation(api().db, answer.headers.get('x-operation-id') ?? '')
    t.is(operation?.kind as string, kind)
    t.is(operation?.state, 'success')
    t.is(operation?.actor, ana.id)
  }
})

test.serial('every form of an empty body is accepted, and any body is ignored', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const octets = { 'content-type': 'application/octet-stream' }
  for (const [body, headers] of [
    [undefined, {}],
    ['', octets],
    ['{"x":1}', {}],
    ['<nonsense>', octets],
  ] as const)
    t.is((await api().as(ana).post(`/v2/apps/${app.id}/start`, body, headers)).status, 200)
})

test.serial('a refusal consists of status and code', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const outcomes: Record<string, string> = {
    start: 'CONTAINER_ALREADY_STARTED',
    stop: 'CONTAINER_ALREADY_STOPPED',
    restart: 'BUILD_FAILED',
  }
  api().lanes.outcome = ({ kind }) => ({ state: 'error', code: outcomes[kind], message: 'in words' })
  for (const [kind, code] of Object.entries(outcomes).slice(0, 2)) {
    const answer = await api().as(ana).post(`/v2/apps/${app.id}/${kind}`)
    t.is(answer.status, 409)
    t.is(answer.text, `{"status":"error","code":"${code}"}`)
  }
  // A code that these routes do not know is reported as the failure that it is.
  t.is((await api().as(ana).post(`/v2/apps/${app.id}/restart`)).text, '{"status":"error","code":"ACTION_FAILED"}')
})

test.serial(
  'a command whose application is deleted meanwhile is answered as one for an application that is not there',
  async t => {
    const ana = await api().makeUser()
    const app = await api().makeApp(ana)
    api().lanes.outcome = () => ({ state: 'cancelled', code: 'APP_NOT_FOUND' })
    const nowhere = await api()
      .as(ana)
      .post(`/v2/apps/${'0'.repeat(24)}/start`)
    for (const kind of ['start', 'stop', 'restart']) {
      const deleted = await api().as(ana).post(`/v2/apps/${app.id}/${kind}`)
      t.deepEqual([deleted.status, deleted.text], [404, nowhere.text], kind)
    }
  },
)

test.serial('an application that is lost with its host refuses power commands without a sentence', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  await api().db('apps').where({ id: app.id }).update({ lost_with: 'h9', status: 'exited' })
  for (const kind of ['start', 'stop', 'restart']) {
    const { status, text } = await api().as(ana).post(`/v2/apps/${app.id}/${kind}`)
    t.deepEqual([status, text], [409, '{"status":"error","code":"ACTION_FAILED"}'], kind)
  }
})

test.serial('every declared code of an operation is answered unchanged', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  for (const [kind, { terse }] of Object.entries({ start: startApp, stop: stopApp, restart: restartApp })) {
    t.true(terse!.length > 2)
    for (const code of terse!) {
      api().lanes.outcome = () => ({ state: 'error', code, message: 'in words' })
      const answer = await api().as(ana).post(`/v2/apps/${app.id}/${kind}`)
      t.deepEqual([answer.status, answer.text], [409, `{"status":"error","code":"${code}"}`])
    }
  }
})

test.serial(
  'an outcome that nobody tells of is seen by looking again, long before the time to be claimed is over',
  async t => {
    const ana = await api().makeUser()
    const app = await api().makeApp(ana)
    api().lanes.asleep = true
    const startedAt = performance.now()
    const pending = api().as(ana).post(`/v2/apps/${app.id}/start`)
    const queued = () => api().db('operations').where({ target_id: app.id, state: 'queued' })
    // As a lane does it, without telling anybody.
    await comesTrue(async () => (await queued().update({ state: 'success', finished_at: new Date() })) > 0)
    const answer = await pending
    api().lanes.asleep = false
    t.is(answer.status, 200)
    t.true(performance.now() - startedAt < commandTimeouts.claimMs)
  },
)

test.serial('two callers that wait for one lane each get their own outcome', async t => {
  const ana = await api().makeUser()
  const [one, two] = [await api().makeApp(ana), await api().makeApp(ana)]
  api().lanes.outcome = async ({ target_id }) => {
    await new Promise(resolve => setTimeout(resolve, target_id === one.id ? 200 : 20))
    return target_id === one.id ? { state: 'error', code: 'CONTAINER_INSUFFICIENT_DISK_SPACE' } : { state: 'success' }
  }
  const [first, second] = await Promise.all([one, two].map(app => api().as(ana).post(`/v2/apps/${app.id}/restart`)))
  t.is(first?.body.code, 'CONTAINER_INSUFFICIENT_DISK_SPACE')
  t.is(second?.status, 200)
})

test.serial('a listening connection that breaks is reopened', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const listeners = async (column = 'pid'): Promise<number[]> =>
    (
      await api().db.raw(
        `select ${column} as pid from pg_stat_activity where application_name = 'berth-listen' and datname = current_database()`,
      )
    ).rows.map(({ pid }: { pid: number }) => pid)
  const before = await listeners()
  t.true(before.length > 0)
  await listeners('pg_terminate_backend(pid)::int')
  // What wakes its callers then: test/api/pipeline/row-notifications.test.ts.
  await comesTrue(async () => {
    const now = await listeners()
    return now.length === before.length && now.every(pid => !before.includes(pid))
  })
  t.is((await api().as(ana).post(`/v2/apps/${app.id}/start`)).status, 200)
})

test.serial('an unclaimed operation expires and can never run afterwards', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const { id } = await enqueueOperation(api().db, { targetId: app.id, kind: 'stop', ownerId: ana.id, actor: ana.id })
  const { expireQueuedOperation: expireQueued, claimNextOperation: claimNext } = await import(
    '../../../../db/operations/operations.ts'
  )
  t.true(await expireQueued(api().db, id))
  t.false(await expireQueued(api().db, id))
  t.is(await claimNext(api().db, { type: 'app', id: app.id }), undefined)
})
