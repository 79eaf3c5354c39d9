import test from 'ava'
import { databasePasswordKey } from '../../../../db/databases/authorities.ts'
import { findOperation } from '../../../../db/operations/operations.ts'
import { databasePassword } from '../../../../policy/databases/passwords.ts'
import { commandTimeouts } from '../../../../policy/timeouts.ts'
import { type Answer, type TestUser, testApi, testKeys } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import type { DatabaseOperationRow } from '../../../kit/fakes/scripted-database-lanes.ts'
import { scriptedCertificate } from '../../../kit/fakes/scripted-database-lanes.ts'
import { searchFor, tablesWith } from '../../../kit/platform/secret-search.ts'

const lines: string[] = []
const keep = (fields: object, words: string) => void lines.push(JSON.stringify({ ...fields, words }))
const api = testApi({ services: () => ({ log: { info: keep, warn: keep, error: keep } }) })

test.beforeEach(() => {
  const { databaseLanes, services } = api()
  Object.assign(databaseLanes, { asleep: false, outcome: () => ({ state: 'success' }), beforeUndo: async () => {} })
  services.timeouts = commandTimeouts
  services.resolvesName = async () => ['127.0.0.1']
})

const redis = { name: 'cache', memory: 512, type: 'redis', version: '8' }
const create = (who: TestUser | string, body: unknown = redis, headers: Record<string, string> = {}): Promise<Answer> =>
  api().as(who).post('/v2/databases', JSON.stringify(body), headers)
const said = ({ status, body }: Answer) => [status, body.code]

const rowsOf = (ana: TestUser) => api().db('databases').where({ owner_id: ana.id })
const operationOf = (answer: Answer) => findOperation(api().db, answer.headers.get('x-operation-id') ?? '')

/** Nothing of a creation is left but its operation. */
async function nothingLeft(ana: TestUser): Promise<boolean> {
  const used = (await api().as(ana).get('/v2/users/me')).body.response.user.plan.memory.used
  return (await rowsOf(ana)).length === 0 && used === 0
}

test.serial('a creation answers with everything that a client needs, once the database serves', async t => {
  const ana = await api().makeUser()
  for (const [type, version, offered, url] of [
    ['mongo', '8', '8', /^mongodb:\/\/default:(\w{32})@(.*):(\d+)\/\?tls=true&authSource=admin&directConnection=true$/],
    ['mysql', '9.7.4', '9', /^mysql:\/\/default:(\w{32})@(.*):(\d+)$/],
    ['redis', '7', '7', /^rediss:\/\/default:(\w{32})@(.*):(\d+)$/],
    ['postgres', '17.2', '17', /^postgres:\/\/default:(\w{32})@(.*):(\d+)$/],
  ] as const) {
    const answer = await create(ana, { name: ' my-data_1 ', memory: 4096, type, version })
    t.is(answer.status, 200, answer.text)
    const { response } = answer.body
    const row = await rowsOf(ana).where({ id: response.id }).first()
    t.like(row, { engine: type, version: offered, name: 'my-data_1', ram_mb: 4096, accepting: false })
    const { password, certificate, connection_url, ...rest } = response
    t.deepEqual(rest, { id: row.id, name: 'my-data_1', memory: 4096, cpu: 2, type, cluster: 'h1' })
    t.regex(row.id, /^[0-9a-f]{32}$/)
    t.is(Buffer.from(certificate, 'base64').toString(), scriptedCertificate(row.id))
    t.deepEqual(url.exec(connection_url)?.slice(1), [password, `db-${row.id}.apps.localhost`, String(row.port)])
    t.is(password, databasePassword(await databasePasswordKey(api().db, testKeys), row.id, 1))
    t.like(await operationOf(answer), { kind: 'create', target_type: 'database', state: 'success', actor: ana.id })
  }
  const ports = (await rowsOf(ana)).map(({ port }) => port)
  t.is(new Set(ports).size, 4)
  const used = (await api().as(ana).get('/v2/users/me')).body.response.user.plan.memory
  t.deepEqual(used, { limit: 32_768, available: 16_384, used: 16_384 })
})

test.serial('the connection URL has the address of the host where the name leads nowhere', async t => {
  const ana = await api().makeUser()
  const asked: string[] = []
  api().services.resolvesName = async name => {
    asked.push(name)
    return []
  }
  const { response } = (await create(ana)).body
  t.regex(response.connection_url, /^rediss:\/\/default:\w{32}@127\.0\.0\.1:\d+$/)
  t.deepEqual(asked, [`db-${response.id}.apps.localhost`])
})

test.serial('refusals of a body come in the order of its fields, and create nothing', async t => {
  const ana = await api().makeUser()
  const wrong = { name: '', type: 'oracle', version: 'new', memory: '512' }
  const refusals = [
    [wrong, 'INVALID_NAME'],
    [{ ...wrong, name: 'a' }, 'INVALID_DATABASE_TYPE'],
    [{ ...wrong, name: 'a', type: 'redis' }, 'INVALID_DATABASE_VERSION'],
    [{ ...wrong, name: 'a', type: 'redis', version: '6' }, 'INVALID_DATABASE_VERSION'],
    [{ name: 'a', type: 'redis', version: '6' }, 'INVALID_DATABASE_VERSION'],
    [{ name: 'a', type: 'redis' }, 'INVALID_DATABASE_VERSION'],
    [{ name: 'a', type: 'redis', version: '8' }, 'INSUFFICIENT_MEMORY'],
    [{ ...wrong, name: 'a', type: 'redis', version: '8' }, 'INSUFFICIENT_MEMORY'],
    [{ ...wrong, name: 'a', type: 'redis', version: '8', memory: 511 }, 'INVALID_MEMORY'],
  ] as const
  for (const [body, code] of refusals) t.deepEqual(said(await create(ana, body)), [400, code], JSON.stringify(body))
  t.deepEqual(said(await create(ana, {})), [400, 'INVALID_NAME'])
  t.deepEqual(said(await api().as(ana).post('/v2/databases', 'x')), [400, 'INVALID_JSON_BODY'])
  t.true(await nothingLeft(ana))
})

test.serial('a credential or a plan that cannot create databases is refused before the body is read', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser({ plan: 'hobby-2' })]
  const limited = await api().makeKey(ana, { resources: ['a'.repeat(32)] })
  for (const body of ['{}', 'x', JSON.stringify(redis)]) {
    t.deepEqual(said(await api().as(limited.key).post('/v2/databases', body)), [403, 'RESOURCE_NOT_ALLOWED'])
    t.deepEqual(said(await api().as(bob).post('/v2/databases', body)), [403, 'UPGRADE_REQUIRED'])
  }
  t.is((await rowsOf(ana)).length + (await rowsOf(bob)).length, 0)
  t.is((await create(await api().makeUser({ plan: 'standard-4' }))).status, 200, 'Standard and up')
})

test.serial('names, types and versions of every wrong form are refused with their own code', async t => {
  const ana = await api().makeUser()
  const wrong = {
    name: [
      null,
      1,
      [],
      {},
      '',
      ' ',
      'x'.repeat(33),
      'naïve',
      '😀',
      'a\0',
      '\ud800',
      'a/b',
      'a\n',
      ['a'],
      'x'.repeat(500_000),
    ],
    type: [null, 1, [], {}, '', 'Redis', 'redis ', 'constructor', '__proto__', ['redis'], 'a\0'],
    version: [
      null,
      8,
      8.5,
      [],
      {},
      '',
      '8.',
      '08',
      'latest',
      '8.0.0.0',
      '9',
      ' 8',
      '8\n',
      ['8'],
      '8'.repeat(100),
      '\ud800',
    ],
  }
  const codes = { name: 'INVALID_NAME', type: 'INVALID_DATABASE_TYPE', version: 'INVALID_DATABASE_VERSION' } as const
  for (const [field, values] of Object.entries(wrong))
    for (const value of values)
      t.deepEqual(
        said(await create(ana, { ...redis, [field]: value })),
        [400, codes[field as keyof typeof codes]],
        `${field} ${JSON.stringify(value).slice(0, 40)}`,
      )
  t.true(await nothingLeft(ana))
})

test.serial('memory that is no whole number is INSUFFICIENT_MEMORY, and one out of bounds INVALID_MEMORY', async t => {
  const ana = await api().makeUser()
  const bodyWith = (memory: string) => `{"name":"a","type":"redis","version":"8","memory":${memory}}`
  const ask = async (memory: string) => said(await api().as(ana).post('/v2/databases', bodyWith(memory)))
  for (const memory of [
    '"512"',
    '1.5',
    '512.5',
    'null',
    'true',
    '[512]',
    '{}',
    '""',
    '"a\\u0000"',
    '1e400',
    '"\\ud800"',
  ])
    t.deepEqual(await ask(memory), [400, 'INSUFFICIENT_MEMORY'], memory)
  for (const memory of ['511', '0', '-1', '-512', '32769', '1e9', '9007199254740993', '1e300'])
    t.deepEqual(await ask(memory), [400, 'INVALID_MEMORY'], memory)
  for (const memory of ['NaN', 'Infinity', '']) t.deepEqual(await ask(memory), [400, 'INVALID_JSON_BODY'], memory)
  t.deepEqual(said(await create(ana, { ...redis, memory: undefined })), [400, 'INSUFFICIENT_MEMORY'])
  for (const type of ['mongo', 'mysql', 'postgres']) {
    const version = { mongo: '8', mysql: '9', postgres: '17' }[type]
    t.deepEqual(said(await create(ana, { name: 'a', type, version, memory: 1023 })), [400, 'INVALID_MEMORY'], type)
  }
  t.true(await nothingLeft(ana))
  t.is((await api().as(ana).post('/v2/databases', bodyWith('5.12e2'))).status, 200)
})

test.serial('more memory than the plan has left is refused, also for concurrent requests', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  await api().makeApp(ana, { memoryMb: 512 })
  const answers = await Promise.all(Array.from({ length: 8 }, () => create(ana, { ...redis, memory: 1024 })))
  const refused = answers.filter(({ status }) => status !== 200)
  t.is(refused.length, 5)
  for (const answer of refused) t.deepEqual(said(answer), [400, 'INSUFFICIENT_MEMORY'])
  const ports = (await rowsOf(ana)).map(({ port }) => port)
  t.is(new Set(ports).size, 3)
})

test.serial('a platform without room or image refuses, with the reason of its hosts', async t => {
  const ana = await api().makeUser()
  const { db } = api()
  const { database_images: ready } = await db('hosts').first()
  const hosts = (change: object) => db('hosts').update(change)
  t.teardown(() => hosts({ draining: false, memory_mb: 10_000_000, database_images: ready }))
  await hosts({ draining: true })
  const later = await create(ana)
  t.deepEqual(said(later), [503, 'CLUSTER_MAINTENANCE_TRY_LATER'])
  t.truthy(later.headers.get('retry-after'))
  await hosts({ draining: false, database_images: {} })
  t.deepEqual(said(await create(ana)), [503, 'CLUSTER_MAINTENANCE_TRY_LATER'], 'the image is being fetched')
  await hosts({ database_images: { 'berth/redis:8': 'No registry answers.' } })
  const never = await create(ana)
  t.deepEqual([...said(never), never.body.message], [400, 'CLUSTER_SELECTION_FAILED', 'No registry answers.'])
  await hosts({ database_images: ready, memory_mb: 600 })
  t.deepEqual(said(await create(ana, { ...redis, memory: 1024 })), [400, 'CLUSTER_SELECTION_FAILED'])
  t.true(await nothingLeft(ana))
})

test.serial('the stand-in for MongoDB serves only where the operator lets it, and after the real one', async t => {
  const ana = await api().makeUser()
  const { db, services } = api()
  const { database_images: ready } = await db('hosts').first()
  const { config } = services
  const mongo = { name: 'm', memory: 1024, type: 'mongo', version: '8' }
  const imageOf = async (answer: Answer) => (await rowsOf(ana).where({ id: answer.body.response.id }).first()).image
  t.teardown(async () => {
    services.config = config
    await db('hosts').update({ database_images: ready })
  })
  const refusal = { 'berth/mongo:8': 'No registry answers.' }
  await db('hosts').update({ database_images: { ...refusal, 'berth/mongo-stand-in:8': 'ready' } })
  t.deepEqual(said(await create(ana, mongo)), [400, 'CLUSTER_SELECTION_FAILED'])
  services.config = { ...config, databases: { ...config.databases, mongoStandIn: true } }
  t.is(await imageOf(await create(ana, mongo)), 'berth/mongo-stand-in:8')
  await db('hosts').update({ database_images: { 'berth/mongo:8': 'ready', 'berth/mongo-stand-in:8': 'ready' } })
  t.is(await imageOf(await create(ana, mongo)), 'berth/mongo:8')
})

test.serial('a type that the operator does not offer is refused with those that are', async t => {
  const ana = await api().makeUser()
  const { services } = api()
  const { config } = services
  t.teardown(() => Object.assign(services, { config }))
  services.config = { ...config, databases: { ...config.databases, engines: ['postgres', 'mysql'] } }
  const { status, body } = await create(ana)
  t.deepEqual(
    [status, body.code, body.message],
    [400, 'INVALID_DATABASE_TYPE', 'This platform offers postgres, mysql.'],
  )
  t.deepEqual(said(await create(ana, { name: 'a', type: 'redis', version: 'new' })), [400, 'INVALID_DATABASE_TYPE'])
})

test.serial(
  'a failed creation is answered with its reason, leaves nothing, and is explained to its owner only',
  async t => {
    const [ana, bob] = [await api().makeUser(), await api().makeUser()]
    for (const code of [
      'DATABASE_CREATION_FAILED',
      'CONTAINER_INSUFFICIENT_DISK_SPACE',
      'CONTAINER_TEMPORARILY_SUSPENDED',
      'DEPLOY_FAILED',
      'ACTION_FAILED',
    ]) {
      api().databaseLanes.outcome = () => ({ state: 'error', code, message: `The reason of ${code}.` })
      const answer = await create(ana)
      t.deepEqual(answer.body, {
        status: 'error',
        code: 'DATABASE_CREATION_FAILED',
        message: `The reason of ${code}.`,
      })
      t.is(answer.status, 400)
      t.true(await nothingLeft(ana))
      const { target_id: id } = (await operationOf(answer))!
      const mine = await api().as(ana).get(`/v2/databases/${id}`)
      t.deepEqual(said(mine), [404, 'DATABASE_NOT_FOUND'])
      t.true(mine.body.message.endsWith(`${code}: The reason of ${code}.`), mine.text)
      t.is((await api().as(bob).get(`/v2/databases/${id}`)).body.message, 'The database does not exist.')
    }
  },
)

test.serial('a creation that fails for a reason of the platform is 500 without the reason, and logged', async t => {
  const ana = await api().makeUser()
  for (const code of ['INTERNAL_SERVER_ERROR', 'READ_FAILED', undefined]) {
    lines.length = 0
    api().databaseLanes.outcome = () => ({ state: 'error', code, message: 'a secret of the platform' })
    const answer = await create(ana)
    t.deepEqual(said(answer), [500, 'DATABASE_CREATION_FAILED'])
    t.notRegex(answer.text, /secret/)
    t.true(lines.some(line => line.includes('a secret of the platform')))
    t.true(await nothingLeft(ana))
  }
})

test.serial('a creation that takes too long is cancelled, and answered once nothing of it is left', async t => {
  t.is(commandTimeouts.creationMs, 85_000)
  const ana = await api().makeUser()
  api().services.timeouts = { ...commandTimeouts, creationMs: 300, holdMs: 10_000 }
  api().databaseLanes.outcome = () => new Promise(() => {})
  const answer = await create(ana)
  t.deepEqual(said(answer), [400, 'DATABASE_CREATION_FAILED'])
  t.like(await operationOf(answer), { state: 'cancelled' })
  t.true(await nothingLeft(ana))
})

test.serial('a creation whose removal takes too long is answered as failed, and is removed after it', async t => {
  const ana = await api().makeUser()
  api().services.timeouts = { ...commandTimeouts, creationMs: 300, holdMs: 600 }
  let undo = () => {}
  api().databaseLanes.outcome = () => new Promise(() => {})
  api().databaseLanes.beforeUndo = () =>
    new Promise<void>(resolve => {
      undo = resolve
    })
  const answer = await create(ana)
  t.deepEqual(
    [...said(answer), answer.body.message],
    [400, 'DATABASE_CREATION_FAILED', 'The creation took too long, and was cancelled.'],
  )
  t.is((await operationOf(answer))?.state, 'running')
  undo()
  await comesTrue(() => nothingLeft(ana))
})

test.serial('a creation that succeeds while it is cancelled is answered as created', async t => {
  const ana = await api().makeUser()
  api().services.timeouts = { ...commandTimeouts, creationMs: 300, holdMs: 10_000 }
  const { databaseLanes, db } = api()
  let serve = () => {}
  databaseLanes.outcome = operation =>
    new Promise(resolve => {
      serve = () => resolve({ state: 'success' })
      // The request to cancel arrives when there is nothing left to cancel.
      void comesTrue(async () => {
        const row = await db('operations').where({ id: operation.id }).whereNotNull('cancel_requested_at').first()
        if (row) serve()
        return row !== undefined
      })
    })
  databaseLanes.wake = async function (id) {
    this.woken.push(id)
    if (this.woken.filter(one => one === id).length === 1) await Object.getPrototypeOf(this).wake.call(this, id)
  }
  t.teardown(() => Reflect.deleteProperty(databaseLanes, 'wake'))
  const answer = await create(ana)
  t.is(answer.status, 200, answer.text)
  t.is((await rowsOf(ana)).length, 1)
})

test.serial('a creation that no worker claims ends in time, and never runs', async t => {
  const ana = await api().makeUser()
  api().services.timeouts = { ...commandTimeouts, claimMs: 300, creationMs: 20_000, holdMs: 30_000 }
  api().databaseLanes.asleep = true
  const answer = await create(ana)
  t.deepEqual(said(answer), [400, 'DATABASE_CREATION_FAILED'])
  t.true(await nothingLeft(ana))
  const operation = (await operationOf(answer))!
  t.like(operation, { state: 'cancelled', started_at: null })
  api().databaseLanes.asleep = false
  await api().databaseLanes.wake(operation.target_id)
  t.is((await operationOf(answer))?.state, 'cancelled')
})

test.serial('a client that disconnects does not end the creation', async t => {
  const ana = await api().makeUser()
  let finish = () => {}
  api().databaseLanes.outcome = () =>
    new Promise(resolve => {
      finish = () => resolve({ state: 'success' })
    })
  const leaving = new AbortController()
  const asked = fetch(`${api().url}/v2/databases`, {
    method: 'POST',
    headers: { authorization: ana.key },
    body: JSON.stringify(redis),
    signal: leaving.signal,
  })
  await comesTrue(async () => (await api().db('operations').where({ owner_id: ana.id, state: 'running' })).length === 1)
  leaving.abort()
  await t.throwsAsync(asked, { any: true })
  finish()
  await comesTrue(async () => (await rowsOf(ana).where({ status: 'running' })).length === 1)
})

test.serial('a repeated request gets the first answer, made anew', async t => {
  const ana = await api().makeUser()
  const key = { 'idempotency-key': 'k' }
  const first = await create(ana, redis, key)
  const again = await create(ana, redis, key)
  t.deepEqual([first.headers.get('idempotent-replayed'), again.headers.get('idempotent-replayed')], [null, 'true'])
  t.is(again.text, first.text)
  t.is(again.headers.get('x-operation-id'), first.headers.get('x-operation-id'))
  t.is((await rowsOf(ana)).length, 1)
  t.is((await api().db('audit').where({ actor: ana.id, action: 'databases.create' })).length, 1)
})

test.serial('a repeated request never discloses a password that was reset since', async t => {
  const ana = await api().makeUser()
  const key = { 'idempotency-key': 'k' }
  const { key: writer } = await api().makeKey(ana, { scopes: ['databases:write'] })
  const { response } = (await create(writer, redis, key)).body
  const reset = JSON.stringify({ reset: 'password' })
  const { password } = (await api().as(ana).post(`/v2/databases/${response.id}/credentials/reset`, reset)).body.response
  t.not(password, response.password)
  const again = await create(writer, redis, key)
  t.is(again.body.response.password, response.password)
  t.false(again.text.includes(password))
})

test.serial('a repeated request is refused while the first one runs, and gets its failure afterwards', async t => {
  const ana = await api().makeUser()
  const key = { 'idempotency-key': 'k' }
  let fail = () => {}
  api().databaseLanes.outcome = () =>
    new Promise(resolve => {
      fail = () => resolve({ state: 'error', code: 'ACTION_FAILED', message: 'The host is away.' })
    })
  const first = create(ana, redis, key)
  await comesTrue(async () => (await api().db('operations').where({ owner_id: ana.id, state: 'running' })).length === 1)
  const meanwhile = await create(ana, redis, key)
  t.deepEqual(said(meanwhile), [409, 'IDEMPOTENCY_IN_PROGRESS'])
  t.is(meanwhile.headers.get('idempotent-replayed'), null)
  fail()
  const answer = await first
  t.deepEqual(said(answer), [400, 'DATABASE_CREATION_FAILED'])
  const again = await create(ana, redis, key)
  t.deepEqual([again.status, again.text], [answer.status, answer.text])
  t.is(again.headers.get('idempotent-replayed'), 'true')
  t.is((await api().db('operations').where({ owner_id: ana.id })).length, 1)
})

test.serial('after a failure of the platform the same key creates anew', async t => {
  const ana = await api().makeUser()
  const key = { 'idempotency-key': 'k' }
  api().databaseLanes.outcome = () => ({ state: 'error', code: 'INTERNAL_SERVER_ERROR' })
  t.deepEqual(said(await create(ana, redis, key)), [500, 'DATABASE_CREATION_FAILED'])
  api().databaseLanes.outcome = () => ({ state: 'success' })
  const answer = await create(ana, redis, key)
  t.deepEqual([answer.status, answer.headers.get('idempotent-replayed')], [200, null])
})

test.serial('a repeated request for a database that was deleted since is refused', async t => {
  const ana = await api().makeUser()
  const key = { 'idempotency-key': 'k' }
  const { id } = (await create(ana, redis, key)).body.response
  t.is((await api().as(ana).delete(`/v2/databases/${id}`)).status, 200)
  t.deepEqual(said(await create(ana, redis, key)), [404, 'DATABASE_NOT_FOUND'])
  t.is((await rowsOf(ana)).length, 0)
})

test.serial('an answer that its process could not send is given to the repeated request', async t => {
  const ana = await api().makeUser()
  const key = { 'idempotency-key': 'k' }
  const left: DatabaseOperationRow[] = []
  let finish = () => {}
  api().databaseLanes.outcome = operation =>
    new Promise(resolve => {
      left.push(operation)
      finish = () => resolve({ state: 'success' })
    })
  const leaving = new AbortController()
  const headers = { authorization: ana.key, ...key }
  const request = { method: 'POST', headers, body: JSON.stringify(redis), signal: leaving.signal }
  const asked = fetch(`${api().url}/v2/databases`, request)
  await comesTrue(() => left.length === 1)
  leaving.abort()
  await t.throwsAsync(asked, { any: true })
  finish()
  await comesTrue(async () => (await rowsOf(ana).where({ status: 'running' })).length === 1)
  const answer = await create(ana, redis, key)
  t.is(answer.status, 200, answer.text)
  t.is(answer.body.response.id, left[0]!.target_id)
  t.regex(answer.body.response.password, /^\w{32}$/)
})

test.serial('a password is in no row and in no line of the log', async t => {
  const ana = await api().makeUser()
  lines.length = 0
  const headers = { 'idempotency-key': 'k' }
  const { response } = (await create(ana, redis, headers)).body
  await create(ana, redis, headers)
  const reset = JSON.stringify({ reset: 'password' })
  const again = await api().as(ana).post(`/v2/databases/${response.id}/credentials/reset`, reset)
  await api().as(ana).get(`/v2/databases/${response.id}/credentials/certificate`)
  const key = await databasePasswordKey(api().db, testKeys)
  const passwords = [response.password, again.body.response.password, key.toString('hex'), key.toString('base64')]
  t.is(new Set(passwords).size, 4)
  const holds = searchFor(passwords)
  t.deepEqual(await tablesWith(api().db, holds), [])
  t.false(holds(lines.join('\n')))
  t.true((await tablesWith(api().db, searchFor([response.id]))).includes('idempotency_keys'), 'it finds what is there')
})
