import { createHash, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { isDeepStrictEqual } from 'node:util'
import test from 'ava'
import { archives } from '../../../../activities/archives/process.ts'
import { listApps } from '../../../../db/apps/apps.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { wrongConfigs } from '../../../kit/wrong-configs.ts'
import { appZip, zipOfEntries as zip } from '../../../kit/zips.ts'

const api = testApi()
const config = (lines = '') => `DISPLAY_NAME=Shop\nMAIN=index.js\nMEMORY=256\nVERSION=recommended\n${lines}`
const archive = (lines?: string): Buffer =>
  zip([
    { path: 'berth.app', data: config(lines) },
    { path: 'index.js', data: 'console.log(1)' },
    { path: 'package.json', data: '{}' },
  ])

function form(file: Buffer, { name = 'shop.zip', field = 'file', type = 'application/zip' } = {}): FormData {
  const body = new FormData()
  body.append(field, new Blob([file], { type }), name)
  return body
}

const upload = (user: TestUser | string, body: FormData, headers?: Record<string, string>) =>
  api().as(user).post('/v2/apps', body, headers)

const nothing = { bodies: 0, rows: 0 }

/** Nothing of a refused upload stays: no body in the store, no row that says there is one. Ids that wait for their body are no such rows. */
async function leftovers(): Promise<{ bodies: number; rows: number }> {
  const referred = await api().db('segments').where('refs', '>', 0).count({ n: '*' }).first()
  const rows = await api().db('segments').whereNot('state', 'drawn').count({ n: '*' }).first()
  return { bodies: (await api().store.files()) - Number(referred?.n), rows: Number(rows?.n) - Number(referred?.n) }
}

test.serial('a zip becomes an application, an operation and a deployment, and its lane is woken', async t => {
  const ana = await api().makeUser()
  const subdomain = `shop-${ana.id}`
  const file = archive(`DESCRIPTION=sells\nSUBDOMAIN=${subdomain}\nMEMORY=512`)
  const answer = await upload(ana, form(file))
  t.is(answer.status, 200, answer.text)
  const [app] = await listApps(api().db, ana.id)
  t.deepEqual(answer.body, {
    status: 'success',
    response: {
      id: app?.id,
      name: 'Shop',
      description: 'sells',
      lang: 'javascript',
      ram: 512,
      cpu: 1,
      language: { name: 'javascript', version: 'recommended' },
      cluster: 'h1',
      domain: `${subdomain}.apps.localhost`,
      subdomain,
    },
  })
  const operation = await api()
    .db('operations')
    .where({ id: answer.headers.get('x-operation-id') })
    .first()
  t.is(operation.target_id, app?.id)
  t.is(operation.kind, 'create')
  const deployment = await api().db('deployments').where({ app_id: app?.id }).first()
  const sha256 = createHash('sha256').update(file).digest('hex')
  t.is(deployment.revision, sha256.slice(0, 40))
  t.deepEqual(await text(deployment.segment_id), file.toString('latin1'))
  t.true(api().lanes.woken.includes(app!.id))
  t.deepEqual(await leftovers(), nothing)
})

test.serial('every refusal has its code and leaves nothing', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const cases: [FormData, number, string][] = [
    [form(archive(), { name: 'shop.tar' }), 400, 'INVALID_FILENAME'],
    [form(archive(), { name: 'shop.zip.exe' }), 400, 'INVALID_FILENAME'],
    [form(archive(), { field: 'other' }), 400, 'EMPTY_RESPONSE'],
    [new FormData(), 400, 'EMPTY_RESPONSE'],
    [form(Buffer.alloc(0)), 400, 'INVALID_FILE'],
    [form(Buffer.from('not a zip')), 400, 'INVALID_FILE'],
    [form(zip([{ path: 'index.js', data: '1' }])), 400, 'MISSING_CONFIG'],
    [
      form(
        zip([
          { path: 'berth.app', data: config() },
          { path: '../x', data: '1' },
        ]),
      ),
      400,
      'INVALID_FILE',
    ],
    ...wrongConfigs.map(([code, keys]): [FormData, number, string] => [form(appZip({}, keys)), 400, code]),
    [form(appZip({ 'main.go': '' }, { MAIN: 'main.go' })), 400, 'MISSING_DEPENDENCIES_FILE'],
    [form(archive('MEMORY=99999999')), 400, 'INVALID_MEMORY'],
    [form(archive('MEMORY=2048')), 400, 'FEW_MEMORY'],
    [form(archive('MEMORY=256\nHEALTH=/ready')), 400, 'INVALID_HEALTH'],
    [form(archive('MEMORY=512\nSUBDOMAIN=-x')), 400, 'INVALID_SUBDOMAIN'],
    [form(archive('MEMORY=512\nSUBDOMAIN=XN--e1afmkfd')), 400, 'INVALID_SUBDOMAIN'],
  ]
  for (const [body, status, code] of cases) {
    const answer = await upload(ana, body)
    t.is(answer.body.code, code)
    t.is(answer.status, status, code)
    t.deepEqual(await leftovers(), nothing, code)
  }
  t.deepEqual(await listApps(api().db, ana.id), [])
})

test.serial('an archive that cannot be inspected in time is to be sent again', async t => {
  const ana = await api().makeUser()
  const { id } = (await upload(ana, form(archive()))).body.response
  const before = api().services.archives
  const hurried = archives({ inspectSeconds: 0 })
  api().services.archives = hurried
  t.teardown(async () => {
    api().services.archives = before
    await hurried.close()
  })
  const answers = [
    await upload(ana, form(archive())),
    await api().as(ana).post(`/v2/apps/${id}/commit`, form(archive())),
  ]
  for (const { status, body, headers } of answers) {
    t.deepEqual([status, body.code], [503, 'UPLOAD_BUSY'])
    t.is(headers.get('retry-after'), '30')
  }
  t.deepEqual(await leftovers(), nothing)
})

test.serial('an upload that is not a form is 415', async t => {
  const ana = await api().makeUser()
  for (const [body, type] of [
    ['{}', 'application/json'],
    [archive(), 'application/zip'],
    ['x', 'multipart/form-data'],
    ['x', 'multipart/mixed; boundary=x'],
    [undefined, ''],
  ] as const) {
    const answer = await api()
      .as(ana)
      .post('/v2/apps', body as string, type ? { 'content-type': type } : {})
    t.is(answer.status, 415, type)
    t.is(answer.body.code, 'INVALID_CONTENT_TYPE')
  }
})

test.serial('over 100 MB is FILE_TOO_LARGE, by its declared length or while it arrives', async t => {
  const ana = await api().makeUser()
  const big = new Blob([Buffer.alloc(100 * 1024 * 1024 + 1)])
  const body = new FormData()
  body.append('file', big, 'big.zip')
  const found = await upload(ana, body)
  t.is(found.status, 413)
  t.is(found.body.code, 'FILE_TOO_LARGE')
  const reported = await raw(
    `POST /v2/apps HTTP/1.1\r\nHost: x\r\nAuthorization: ${ana.key}\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 200000000\r\n\r\n`,
  )
  t.regex(reported, /^HTTP\/1.1 413 /)
  t.regex(reported, /FILE_TOO_LARGE/)
  t.deepEqual(await leftovers(), nothing)
})

test.serial('an upload that breaks off leaves nothing', async t => {
  const ana = await api().makeUser()
  const head = `--x\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n`
  const request = `POST /v2/apps HTTP/1.1\r\nHost: x\r\nAuthorization: ${ana.key}\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000000\r\n\r\n${head}`
  await new Promise<void>(resolve => {
    const socket = connect(Number(new URL(api().url).port), '127.0.0.1', () => {
      socket.write(request + 'z'.repeat(200_000))
      setTimeout(() => socket.destroy(), 200)
    })
    socket.on('close', () => resolve())
  })
  await comesTrue(async () => isDeepStrictEqual(await leftovers(), nothing))
  const torn = await raw(`${request.replace('1000000', String(head.length + 10))}0123456789`)
  t.regex(torn, /"code":"FAILED_UPLOAD"/)
  t.deepEqual(await leftovers(), nothing)
})

test.serial('an unavailable store is FAILED_UPLOAD_DATA, and leaves nothing', async t => {
  const ana = await api().makeUser()
  api().store.failing = true
  const answer = await upload(ana, form(archive()))
  api().store.failing = false
  t.is(answer.status, 400)
  t.is(answer.body.code, 'FAILED_UPLOAD_DATA')
  t.deepEqual(await leftovers(), nothing)
})

test.serial('two concurrent uploads never exceed the plan', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const answers = await Promise.all([1, 2, 3].map(() => upload(ana, form(archive('MEMORY=512')))))
  t.deepEqual(answers.map(answer => answer.status).sort(), [200, 200, 400])
  t.is(answers.find(answer => answer.status === 400)?.body.code, 'FEW_MEMORY')
  t.deepEqual(await leftovers(), nothing)
})

test.serial('a taken subdomain is refused', async t => {
  const ana = await api().makeUser()
  const lines = `MEMORY=512\nSUBDOMAIN=taken-${ana.id}`
  const answers = await Promise.all([1, 2].map(() => upload(ana, form(archive(lines)))))
  t.deepEqual(answers.map(answer => answer.body.code ?? 'ok').sort(), ['SUBDOMAIN_TAKEN', 'ok'])
})

test.serial('without a plan or a host no application is created', async t => {
  const free = await api().makeUser({ plan: 'free' })
  t.is((await upload(free, form(archive()))).body.code, 'FEW_MEMORY')
  const ended = await api().makeUser({ planEndsAt: new Date(Date.now() - 1000) })
  t.is((await upload(ended, form(archive()))).body.code, 'FEW_MEMORY')
  const ana = await api().makeUser()
  await api().db('hosts').update({ draining: true })
  const away = await upload(ana, form(archive()))
  await api().db('hosts').update({ draining: false })
  t.is(away.status, 503)
  t.is(away.body.code, 'CLUSTER_MAINTENANCE_TRY_LATER')
  t.truthy(away.headers.get('retry-after'))
  const full = await upload(await api().makeUser({ plan: 'enterprise-1024' }), form(archive('MEMORY=32768')))
  t.is(full.status, 200)
  await api().db('hosts').update({ memory_mb: 1 })
  t.is((await upload(ana, form(archive()))).body.code, 'FAILED_CLUSTER_SELECTION')
  await api().db('hosts').update({ memory_mb: 10_000_000 })
  t.deepEqual(await leftovers(), nothing)
})

test.serial('an Idempotency-Key creates one application and repeats its answer', async t => {
  const ana = await api().makeUser()
  const key = { 'idempotency-key': randomBytes(8).toString('hex') }
  const file = archive()
  const first = await upload(ana, form(file), key)
  const again = await upload(ana, form(file), key)
  t.is(first.status, 200)
  t.is(again.text, first.text)
  t.is(again.headers.get('idempotent-replayed'), 'true')
  t.is(first.headers.get('idempotent-replayed'), null)
  t.is(again.headers.get('x-operation-id'), first.headers.get('x-operation-id'))
  t.is((await listApps(api().db, ana.id)).length, 1)
  const other = await upload(ana, form(archive('DESCRIPTION=other')), key)
  t.is(other.status, 409)
  t.is(other.body.code, 'IDEMPOTENCY_KEY_REUSED')
  const bob = await api().makeUser()
  t.not((await upload(bob, form(file), key)).body.response.id, first.body.response.id, 'keys belong to an account')
  t.is((await upload(ana, form(file), { 'idempotency-key': 'x'.repeat(256) })).status, 400)
  t.deepEqual(await leftovers(), nothing)
})

test.serial(
  'concurrent requests with one Idempotency-Key create one application; a refusal is repeated too',
  async t => {
    const ana = await api().makeUser()
    const key = { 'idempotency-key': randomBytes(8).toString('hex') }
    const answers = await Promise.all([1, 2, 3].map(() => upload(ana, form(archive()), key)))
    const [app] = await listApps(api().db, ana.id)
    t.is((await listApps(api().db, ana.id)).length, 1)
    const created = answers.filter(({ status }) => status === 200)
    t.true(created.length > 0)
    t.deepEqual([...new Set(created.map(({ body }) => body.response.id))], [app?.id])
    const others = answers.filter(({ status }) => status !== 200).map(({ body }) => body.code)
    t.deepEqual(
      others.filter(code => code !== 'IDEMPOTENCY_IN_PROGRESS'),
      [],
    )
    const refusal = { 'idempotency-key': randomBytes(8).toString('hex') }
    const bad = zip([{ path: 'index.js', data: '1' }])
    const first = await upload(ana, form(bad), refusal)
    const again = await upload(ana, form(bad), refusal)
    t.is(again.text, first.text)
    t.is(again.headers.get('idempotent-replayed'), 'true')
    t.deepEqual(await leftovers(), nothing)
  },
)

test.serial('concurrent uploads of one account wait for each other: none is refused', async t => {
  const ana = await api().makeUser()
  const answers = await Promise.all(Array.from({ length: 5 }, () => upload(ana, form(archive()))))
  t.deepEqual(
    answers.map(({ status, body }) => body.code ?? status),
    Array(5).fill(200),
  )
  t.is((await listApps(api().db, ana.id)).length, 5)
})

test.serial('the plan at the end of the upload decides the memory', async t => {
  const ana = await api().makeUser({ plan: 'hobby-2' })
  const [{ headers, body }, sent] = [await multipart(archive()), new PassThrough()]
  const answer = fetch(`${api().url}/v2/apps`, {
    method: 'POST',
    headers: { ...headers, authorization: ana.key },
    body: Readable.toWeb(sent),
    duplex: 'half',
  } as RequestInit)
  sent.write(body.subarray(0, 100))
  const started = () => api().db('rate_limits').where('key', 'like', `apps.create/user/${ana.id}/%`).first()
  await comesTrue(async () => (await started()) !== undefined)
  await api().db('users').where({ id: ana.id }).update({ plan: 'free' })
  sent.end(body.subarray(100))
  t.is(((await (await answer).json()) as { code: string }).code, 'FEW_MEMORY')
  t.deepEqual(await leftovers(), nothing)
})

async function multipart(file: Buffer) {
  const request = new Request('http://localhost', { method: 'POST', body: form(file) })
  const headers = { 'content-type': request.headers.get('content-type')! }
  return { headers, body: Buffer.from(await request.arrayBuffer()) }
}

async function text(segmentId: string): Promise<string> {
  let found = ''
  for await (const chunk of await api().store.get(segmentId)) found += chunk.toString('latin1')
  return found
}

function raw(bytes: string): Promise<string> {
  return new Promise(resolve => {
    let text = ''
    const socket = connect(Number(new URL(api().url).port), '127.0.0.1', () => socket.write(bytes))
    socket.on('data', chunk => {
      text += chunk
      if (text.includes('}')) socket.destroy()
    })
    socket.on('close', () => resolve(text))
    socket.on('error', () => resolve(text))
    socket.setTimeout(5000, () => socket.destroy())
  })
}
