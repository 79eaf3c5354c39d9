import test from 'ava'
import { loadDatabase } from '../../../../db/databases/databases.ts'
import { enqueueOperation, findOperation } from '../../../../db/operations/operations.ts'
import { inDoubtMessage } from '../../../../policy/errors.ts'
import { commandTimeouts } from '../../../../policy/timeouts.ts'
import { type Answer, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'

const api = testApi()

test.beforeEach(() => {
  Object.assign(api().databaseLanes, { asleep: false, outcome: () => ({ state: 'success' }) })
})

const said = ({ status, body }: Answer) => [status, body.code]
const patch = (who: TestUser | string, id: string, body: unknown): Promise<Answer> =>
  api()
    .as(who)
    .request('PATCH', `/v2/databases/${id}`, { body: JSON.stringify(body) })
const row = async (id: string) => (await loadDatabase(api().db, id))!
const operations = (id: string) => api().db('operations').where({ target_id: id }).orderBy('seq')

test.serial('a database is shown to its owner, in its own shape and in the profile', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  const database = await api().makeDatabase(ana, { name: 'orders', engine: 'postgres', ramMb: 2048 })
  const shown = {
    id: database.id,
    name: 'orders',
    ram: 2048,
    type: 'postgres',
    cluster: 'h1',
    created_at: database.created_at.toISOString(),
  }
  const info = await api().as(ana).get(`/v2/databases/${database.id}`)
  t.deepEqual(info.body.response, { ...shown, owner: ana.id, port: database.port, restorable: [] })
  await api().makeApp(ana, { memoryMb: 512 })
  const { response } = (await api().as(ana).get('/v2/users/me')).body
  t.deepEqual(response.databases, [shown])
  t.deepEqual(response.user.plan.memory, { limit: 4096, available: 1536, used: 2560 })
})

test.serial('a key that is limited to resources sees only those databases', async t => {
  const ana = await api().makeUser()
  const [one, two] = [await api().makeDatabase(ana), await api().makeDatabase(ana)]
  const { key } = await api().makeKey(ana, { resources: [one.id] })
  const ids = (databases: { id: string }[]) => databases.map(({ id }) => id)
  const profile = (await api().as(key).get('/v2/users/me')).body.response
  t.deepEqual(ids(profile.databases), [one.id])
  t.is(profile.user.plan.memory.used, 1024, 'the memory of all')
  t.deepEqual(ids((await api().as(key).get('/v2/databases/status')).body.response), [one.id])
  t.is((await api().as(key).get(`/v2/databases/${one.id}`)).status, 200)
  for (const id of [two.id, 'f'.repeat(32)])
    t.deepEqual(said(await api().as(key).get(`/v2/databases/${id}`)), [403, 'RESOURCE_NOT_ALLOWED'])
})

test.serial('missing, foreign, shared and malformed ids are answered alike', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const [own, foreign] = [await api().makeDatabase(ana), await api().makeDatabase(bob)]
  const app = await api().makeApp(ana)
  const ids = [
    ...[
      foreign.id,
      'f'.repeat(32),
      app.id,
      'f'.repeat(24),
      `${own.id}-${'a'.repeat(40)}`,
      `${own.id}-${'a'.repeat(32)}`,
    ],
    ...[
      'nonsense',
      own.id.toUpperCase(),
      `${own.id}0`,
      own.id.slice(1),
      '%00',
      '..%2f',
      '%F0%9F%98%80',
      'x'.repeat(2000),
    ],
  ]
  for (const id of ids) {
    const answer = await api().as(ana).get(`/v2/databases/${id}`)
    t.is(answer.status, 404, id)
    t.is(answer.text, '{"status":"error","code":"DATABASE_NOT_FOUND","message":"The database does not exist."}', id)
  }
  t.deepEqual(said(await api().as(ana).get(`/v2/apps/${own.id}`)), [404, 'APP_NOT_FOUND'])
})

test.serial('a database whose creation is not confirmed is not there for its owner', async t => {
  const ana = await api().makeUser()
  const database = await api().makeDatabase(ana, { accepting: true })
  t.deepEqual(said(await api().as(ana).get(`/v2/databases/${database.id}`)), [404, 'DATABASE_NOT_FOUND'])
  t.deepEqual((await api().as(ana).get('/v2/databases/status')).body.response, [])
  t.deepEqual((await api().as(ana).get('/v2/users/me')).body.response.databases, [])
})

test.serial('a name changes immediately, without an operation', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  api().databaseLanes.asleep = true
  const answer = await patch(ana, id, { name: ' new-name ', ram: null })
  t.is(answer.text, '{"status":"success"}')
  t.is(answer.headers.get('x-operation-id'), null)
  t.is((await row(id)).name, 'new-name')
  t.is((await operations(id)).length, 1)
})

test.serial('a name changes immediately while a change of memory runs, and reverts nothing of it', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  await enqueueOperation(api().db, {
    ...{ targetType: 'database', targetId: id, kind: 'resize', ownerId: ana.id, actor: ana.id, input: { ramMb: 2048 } },
  })
  const before = await operations(id)
  const answer = await patch(ana, id, { name: 'busy' })
  t.is(answer.status, 200)
  t.is(answer.headers.get('x-operation-id'), null)
  t.is((await row(id)).name, 'busy')
  t.deepEqual(await operations(id), before)
})

test.serial('memory changes with an operation that has the new size, and nothing else', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana, { engine: 'mysql' })
  const answer = await patch(ana, id, { name: 'large', ram: 4096 })
  t.is(answer.text, '{"status":"success"}')
  const operation = await findOperation(api().db, answer.headers.get('x-operation-id') ?? '')
  t.like(operation, { kind: 'resize', state: 'success', input: { ramMb: 4096 }, actor: ana.id })
  t.like(await row(id), { ram_mb: 4096, reserved_mb: 4096, cpu: 2, name: 'large' })
  t.is((await patch(ana, id, { ram: 1024 })).status, 200)
  t.like(await row(id), { ram_mb: 1024, reserved_mb: 1024, cpu: 1 })
  t.is((await patch(ana, id, { ram: 1024 })).status, 200, 'the memory that it has')
  t.is((await operations(id)).length, 3)
})

test.serial('refused changes have their codes, and change nothing', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  const database = await api().makeDatabase(ana, { engine: 'postgres', name: 'orders' })
  await api().makeDatabase(ana, { ramMb: 1024 })
  const ask = async (body: unknown) => said(await patch(ana, database.id, body))
  for (const body of [{}, { name: null }, { name: null, ram: null }, { memory: 2048 }])
    t.deepEqual(await ask(body), [400, 'NO_UPDATE_DATA'], JSON.stringify(body))
  for (const name of ['', ' ', 'x'.repeat(33), 1, [], {}, 'é', 'a\0', '\ud800'])
    t.deepEqual(await ask({ name, ram: 2048 }), [400, 'INVALID_NAME'], JSON.stringify(name))
  for (const ram of ['2048', 1.5, [], {}, true, '', 'a\0', '\ud800', 3073, 8192])
    t.deepEqual(await ask({ name: 'other', ram }), [400, 'INSUFFICIENT_MEMORY'], JSON.stringify(ram))
  for (const ram of [1023, 512, 0, -1, 32_769, 1e9])
    t.deepEqual(await ask({ name: 'other', ram }), [400, 'INVALID_MEMORY'], `${ram}`)
  t.deepEqual(said(await api().as(ana).request('PATCH', `/v2/databases/${database.id}`)), [400, 'NO_UPDATE_DATA'])
  t.deepEqual(said(await api().as(ana).request('PATCH', `/v2/databases/${database.id}`, { body: '[]' })), [
    400,
    'INVALID_JSON_BODY',
  ])
  t.deepEqual(await row(database.id), database)
  t.is((await operations(database.id)).length, 1)
  t.is((await patch(ana, database.id, { ram: 3072 })).status, 200, 'all that is left')
})

test.serial('a change of memory that fails is answered with its code, and what it reserved is free again', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  const { id, name } = await api().makeDatabase(ana)
  const failures = [
    ['INVALID_MEMORY', 400],
    ['CONTAINER_INSUFFICIENT_DISK_SPACE', 409],
    ['ACTION_FAILED', 409],
    ['BUILD_FAILED', 409],
  ] as const
  for (const [code, status] of failures) {
    api().databaseLanes.outcome = () => ({ state: 'error', code, message: 'It holds more than that.' })
    const answer = await patch(ana, id, { ram: 4096, name: 'large' })
    t.deepEqual(said(answer), [status, code === 'BUILD_FAILED' ? 'ACTION_FAILED' : code])
    if (code !== 'BUILD_FAILED') t.is(answer.body.message, 'It holds more than that.')
    t.like(await row(id), { ram_mb: 512, reserved_mb: 512, name })
  }
})

test.serial('memory that is reserved for a change counts immediately', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  const { id } = await api().makeDatabase(ana)
  let finish = () => {}
  api().databaseLanes.outcome = () =>
    new Promise(resolve => {
      finish = () => resolve({ state: 'success' })
    })
  const grown = patch(ana, id, { ram: 4096 })
  await comesTrue(async () => (await operations(id).where({ state: 'running' })).length === 1)
  t.is((await api().as(ana).get('/v2/users/me')).body.response.user.plan.memory.used, 4096)
  const body = JSON.stringify({ name: 'a', memory: 512, type: 'redis', version: '8' })
  t.deepEqual(said(await api().as(ana).post('/v2/databases', body)), [400, 'INSUFFICIENT_MEMORY'])
  // The memory that its row still has is a change, as another change runs.
  const back = patch(ana, id, { ram: 512 })
  await comesTrue(async () => (await operations(id).where({ state: 'queued' })).length === 1)
  api().databaseLanes.outcome = () => ({ state: 'success' })
  finish()
  t.deepEqual([(await grown).status, (await back).status], [200, 200])
  t.like(await row(id), { ram_mb: 512, reserved_mb: 512 })
})

test.serial('a deletion is answered once the row is deleted, and frees memory and port', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const answer = await api().as(ana).delete(`/v2/databases/${id}`)
  t.is(answer.text, '{"status":"success"}')
  t.is(await loadDatabase(api().db, id), undefined)
  t.is((await api().as(ana).get('/v2/users/me')).body.response.user.plan.memory.used, 0)
  t.deepEqual(said(await api().as(ana).get(`/v2/databases/${id}`)), [404, 'DATABASE_NOT_FOUND'])
  t.deepEqual(said(await api().as(ana).delete(`/v2/databases/${id}`)), [404, 'DATABASE_NOT_FOUND'])
})

test.serial('a deletion that fails at the host is 404 DELETE_FAILED, and the database is unchanged', async t => {
  const ana = await api().makeUser()
  const before = await api().makeDatabase(ana)
  api().databaseLanes.outcome = () => ({ state: 'error', code: 'ACTION_FAILED', message: 'The engine is away.' })
  const answer = await api().as(ana).delete(`/v2/databases/${before.id}`)
  t.deepEqual(said(answer), [404, 'DELETE_FAILED'])
  t.regex(answer.body.message, /^The database could not be deleted/)
  t.deepEqual(await row(before.id), before)
})

test.serial('a deletion that still runs when its caller has to be answered is in doubt, not failed', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  t.teardown(() => Object.assign(api().services, { timeouts: commandTimeouts }))
  api().services.timeouts = { ...commandTimeouts, claimMs: 10_000, holdMs: 600 }
  api().databaseLanes.outcome = () => new Promise(() => {})
  const answer = await api().as(ana).delete(`/v2/databases/${id}`)
  t.deepEqual(said(answer), [503, 'DATABASE_UNAVAILABLE'])
  t.is(answer.body.message, inDoubtMessage)
})

test.serial('a deletion is refused while the database is being restored', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const restore = { id: 'e'.repeat(32), target_type: 'database', target_id: id, kind: 'restore', state: 'running' }
  await api()
    .db('operations')
    .insert({ ...restore, owner_id: ana.id, actor: ana.id })
  t.deepEqual(said(await api().as(ana).delete(`/v2/databases/${id}`)), [403, 'RESTORE_IN_PROGRESS'])
  t.is((await row(id)).desired_state, 'running')
})

test.serial('commands are in the audit record of the account, with database and operation', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  await patch(ana, id, { name: 'other' })
  await patch(ana, id, { ram: 1024 })
  await api().as(ana).get(`/v2/databases/${id}`)
  const { entries } = (await api().as(ana).get('/v2/account/audit')).body.response
  const shown = entries.map(({ action, resource, result, operation }: Record<string, string | null>) => [
    action,
    resource,
    result,
    operation !== null,
  ])
  t.deepEqual(shown, [
    ['databases.update', id, 'success', true],
    ['databases.update', id, 'success', false],
  ])
})
