import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, request as httpRequest } from 'node:http'
import { join } from 'node:path'
import test from 'ava'
import { hostCall } from '../../../../api/hosts/host-call.ts'
import { httpHostFiles } from '../../../../api/hosts/host-files.ts'
import type { AppRow } from '../../../../db/apps/apps.ts'
import { readCacheVersion } from '../../../../db/apps/cache-versions.ts'
import { enqueueOperation } from '../../../../db/operations/operations.ts'
import { maxFileBytes } from '../../../../policy/apps/file-content.ts'
import { listening, masterKey, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { deletionUnderWay } from '../../../kit/actors/deletions.ts'
import type { Contents } from '../../../kit/folders.ts'
import { type FileHost, fileHost } from '../../../kit/hosts/file-host.ts'
import { makeWorkspace } from '../../../kit/rows/workspaces.ts'
import { wrongConfigs } from '../../../kit/wrong-configs.ts'
import { configText } from '../../../kit/zips.ts'

const api = testApi({ config: { appConfigNames: ['my.app'] } })
let started: Promise<FileHost> | undefined
const first = () => (started ??= fileHost('h1', api().db))

test.after.always('stop the host', async () => (await started)?.stop())

async function made(
  contents: Contents = {},
  { host = first(), plan }: { host?: Promise<FileHost>; plan?: string } = {},
) {
  const ana = await api().makeUser({ plan })
  const app = await api().makeApp(ana)
  const files = await (await host).bring(app, contents)
  return { ...speaking(ana, app), ana, app, files }
}

function speaking(user: TestUser, app: AppRow) {
  const address = `/v2/apps/${app.id}/files`
  const send = (method: string) => (body: unknown) =>
    api()
      .as(user)
      .request(method, address, { body: typeof body === 'string' ? body : JSON.stringify(body) })
  const query = (values: Record<string, string>) => new URLSearchParams(values)
  return {
    address,
    list: (path?: string) =>
      api()
        .as(user)
        .get(`${address}?${query(path === undefined ? {} : { path })}`),
    read: (path: string, encoding?: string) =>
      api()
        .as(user)
        .get(`${address}/content?${query({ path, ...(encoding && { encoding }) })}`),
    put: send('PUT'),
    patch: send('PATCH'),
    remove: send('DELETE'),
  }
}

const names = (answer: { body: { response: { name: string }[] } }) => answer.body.response.map(entry => entry.name)
const ok = { status: 200, body: { status: 'success' } }

test('files are listed, read in both forms, written, moved and deleted', async t => {
  const { list, read, put, patch, remove, files } = await made({ 'index.js': 'hello', 'lib/a.js': 'a', empty: '' })
  const all = await list()
  t.deepEqual(names(all), ['empty', 'index.js', 'lib'])
  t.like(all.body.response[1], { type: 'file', size: 5 })
  t.is(all.body.response[1].lastModified, Math.trunc(statSync(join(files, 'index.js')).mtimeMs))
  t.like(all.body.response[2], { type: 'directory', size: 0 })
  t.deepEqual(names(await list('/lib/')), ['a.js'])

  t.deepEqual((await read('index.js')).body.response, { type: 'Buffer', data: [...Buffer.from('hello')] })
  t.deepEqual((await read('/./lib//a.js', 'base64')).body.response, { encoding: 'base64', data: 'YQ==' })
  t.deepEqual((await read('empty')).body.response, { type: 'Buffer', data: [] })
  t.deepEqual((await read('empty', 'base64')).body.response, { encoding: 'base64', data: '' })

  t.like(await put({ path: '/new/deep/text.txt', content: 'ünï' }), ok)
  t.like(await put({ path: 'b64', content: 'aGk=', encoding: 'base64' }), ok)
  t.like(await put({ path: 'list', buffer: [104, 105] }), ok)
  t.like(await put({ path: 'buffer', content: { type: 'Buffer', data: [0, 255] } }), ok)
  t.like(await put({ path: 'index.js', content: '' }), ok)
  t.like(await put({ path: 'empty', content: [] }), ok)
  t.is(readFileSync(join(files, 'new/deep/text.txt'), 'utf8'), 'ünï')
  t.is(readFileSync(join(files, 'b64'), 'utf8'), 'hi')
  t.is(readFileSync(join(files, 'list'), 'utf8'), 'hi')
  t.deepEqual([...readFileSync(join(files, 'buffer'))], [0, 255])
  t.is(statSync(join(files, 'index.js')).size, 0)

  t.like(await patch({ path: 'list', to: 'moved/to/here' }), ok)
  t.like(await patch({ path: '/new', to: '/renamed' }), ok)
  t.like(await remove({ path: 'renamed' }), ok)
  t.like(await remove({ path: 'b64' }), ok)
  t.deepEqual(names(await list()), ['buffer', 'empty', 'index.js', 'lib', 'moved'])
})

test('each change of a file purges what the proxy has cached, and reading purges nothing', async t => {
  const { app, list, read, put, patch, remove } = await made({ 'index.html': 'hello' })
  await api().db('apps').where({ id: app.id }).update({ subdomain: 'purged-by-files' })
  const purges = () => readCacheVersion(api().db, app.id)
  await list()
  await read('index.html')
  t.is(await purges(), 0)
  await put({ path: 'index.html', content: 'new' })
  t.is(await purges(), 1)
  await patch({ path: 'index.html', to: 'other.html' })
  t.is(await purges(), 2)
  await remove({ path: 'other.html' })
  t.is(await purges(), 3)
})

test('every refusal has its code', async t => {
  const { list, read, put, patch, remove, files } = await made({ file: 'text', 'folder/inner': 'x', other: 'y' })
  symlinkSync('/etc', join(files, 'link'))
  writeFileSync(join(files, 'large'), Buffer.alloc(maxFileBytes + 1))
  const content = 'x'
  const table: [Promise<{ status: number; body: { code: string } }>, number, string][] = [
    [list('/..'), 400, 'INVALID_PATH'],
    [list('a'.repeat(257)), 400, 'INVALID_PATH'],
    [list('nothing'), 404, 'FILE_NOT_FOUND'],
    [list('file'), 404, 'FILE_NOT_FOUND'],
    [list('link'), 404, 'FILE_NOT_FOUND'],
    [read(''), 400, 'INVALID_PATH'],
    [read('a\0'), 400, 'INVALID_PATH'],
    [read('folder'), 404, 'FILE_NOT_FOUND'],
    [read('link/passwd'), 404, 'FILE_NOT_FOUND'],
    [read('file', 'hex'), 400, 'INVALID_ENCODING'],
    [read('large'), 413, 'FILE_TOO_LARGE'],
    [put({ path: 'a/../b', content }), 400, 'INVALID_PATH'],
    [put({ path: '', content }), 400, 'INVALID_PATH'],
    [put({ path: 'a\\b', content }), 400, 'INVALID_PATH'],
    [put({ content }), 400, 'INVALID_PATH'],
    [put({ path: 'folder', content }), 400, 'INVALID_PATH'],
    [put({ path: 'file/x', content }), 400, 'INVALID_PATH'],
    [put({ path: 'link/x', content }), 400, 'INVALID_PATH'],
    [put({ path: 'a' }), 400, 'INVALID_CONTENT'],
    [put({ path: 'a', content: [256] }), 400, 'INVALID_CONTENT'],
    [put({ path: 'a', content: '?', encoding: 'base64' }), 400, 'INVALID_ENCODING'],
    [put({ path: 'a', content, encoding: 'latin1' }), 400, 'INVALID_ENCODING'],
    [put('{"path":'), 400, 'INVALID_JSON_BODY'],
    [patch({ path: 'file', to: './file' }), 400, 'INVALID_PATH'],
    [patch({ path: '/', to: 'x' }), 400, 'INVALID_PATH'],
    [patch({ path: 'file', to: '../x' }), 400, 'INVALID_PATH'],
    [patch({ path: 'file' }), 400, 'INVALID_PATH'],
    [patch({ path: 'nothing', to: 'x' }), 404, 'FILE_NOT_FOUND'],
    [patch({ path: 'file', to: 'other' }), 400, 'RENAME_FAILED'],
    [patch({ path: 'folder', to: 'folder/in/itself' }), 400, 'RENAME_FAILED'],
    [patch({ path: 'file', to: 'berth.app' }), 400, 'RENAME_FAILED'],
    [patch({ path: 'folder', to: 'my.app' }), 400, 'RENAME_FAILED'],
    [remove({ path: '/' }), 400, 'INVALID_PATH'],
    [remove({}), 400, 'INVALID_PATH'],
    [remove({ path: 'nothing' }), 404, 'FILE_NOT_FOUND'],
    [remove({ path: 'link/passwd' }), 404, 'FILE_NOT_FOUND'],
  ]
  for (const [index, [answer, status, code]] of table.entries()) {
    const { status: reported, body } = await answer
    t.deepEqual([reported, body.code], [status, code], `row ${index}`)
  }
  t.is(readFileSync(join(files, 'file'), 'utf8'), 'text')
  t.true(existsSync('/etc/passwd'))
})

test.serial('10 MB pass in every form, more is refused, and 64 MB are not even read', async t => {
  const { read, put, address, ana, files } = await made()
  const full = 'x'.repeat(maxFileBytes)
  const list = `${'120,'.repeat(maxFileBytes - 1)}120`
  const bodies = {
    text: JSON.stringify({ path: 'text', content: full }),
    buffer: `{"path":"buffer","content":{"type":"Buffer","data":[${list}]}}`,
  }
  for (const [name, body] of Object.entries(bodies)) {
    t.like(await put(body), ok, name)
    t.true(readFileSync(join(files, name)).equals(Buffer.from(full)), name)
  }
  const { encoding, data } = (await read('text', 'base64')).body.response
  t.deepEqual([encoding, Buffer.from(data, 'base64').equals(Buffer.from(full))], ['base64', true])
  t.is((await read('buffer')).text, `{"status":"success","response":{"type":"Buffer","data":[${list}]}}`)
  t.like(await put(`{"path":"a","content":[${list},1]}`), { status: 413, body: { code: 'FILE_TOO_LARGE' } })

  const declared = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    const length = 64 * 1024 * 1024 + 1
    const asked = httpRequest(`${api().url}${address}`, {
      method: 'PUT',
      headers: { authorization: ana.key, 'content-length': length },
    })
    asked.on('error', reject)
    asked.on('response', async response => {
      resolve({ status: response.statusCode!, text: (await response.toArray()).join('') })
      asked.destroy()
    })
    asked.flushHeaders()
  })
  t.is(declared.status, 413)
  t.is(JSON.parse(declared.text).code, 'PAYLOAD_TOO_LARGE')
})

test('a role that may not see secret files can neither read nor change them', async t => {
  const secrets = { '.env': 's', '.env.local': 's', '.config/x': 's', 'berth.app': 's', 'my.app': 's', 'in/.env': 's' }
  const { ana, app, files } = await made({ ...secrets, open: 'open', 'in/berth.app': 'no secret here' })
  const people = { admin: await api().makeUser(), maintain: await api().makeUser() }
  const members = Object.entries(people).map(([role, user]) => [user, role] as [TestUser, 'admin' | 'maintain'])
  await makeWorkspace(api().db, ana, { members, apps: [app] })
  const theirs = speaking(people.maintain, app)
  t.deepEqual(names(await theirs.list()), ['in', 'open'])
  t.deepEqual(names(await theirs.list('in')), ['berth.app'])
  const blocked = { status: 403, body: { code: 'BLOCKED_PATH' } }
  t.like(await theirs.list('.config'), blocked)
  for (const path of [...Object.keys(secrets), './/in/./.env']) {
    t.like(await theirs.read(path), blocked, path)
    t.like(await theirs.put({ path, content: 'x' }), blocked, path)
    t.like(await theirs.patch({ path, to: 'seen' }), blocked, path)
    t.like(await theirs.patch({ path: 'open', to: path }), blocked, path)
    t.like(await theirs.remove({ path }), blocked, path)
  }
  t.like(await theirs.remove({ path: 'in' }), blocked)
  t.like(await theirs.patch({ path: 'in', to: 'out' }), blocked)
  t.like(await theirs.put({ path: 'open', content: 'changed' }), ok)
  t.like(await theirs.remove({ path: 'in/berth.app' }), ok)
  const admin = speaking(people.admin, app)
  t.true(names(await admin.list()).includes('.env'))
  t.is((await admin.read('.env')).status, 200)
  for (const path of Object.keys(secrets)) t.is(readFileSync(join(files, path), 'utf8'), 's')
})

test('while a restore waits or runs no file is changed', async t => {
  const { app, ana, list, read, put, patch, remove } = await made({ file: 'text' })
  const { id } = await enqueueOperation(api().db, { targetId: app.id, kind: 'restore', ownerId: ana.id, actor: ana.id })
  const refused = { status: 403, body: { code: 'RESTORE_IN_PROGRESS' } }
  for (const state of ['queued', 'running']) {
    await api().db('operations').where({ id }).update({ state })
    t.like(await put({ path: 'file', content: 'x' }), refused)
    t.like(await patch({ path: 'file', to: 'x' }), refused)
    t.like(await remove({ path: 'file' }), refused)
    t.is((await list()).status, 200)
    t.is((await read('file')).status, 200)
  }
  await api().db('operations').where({ id }).update({ state: 'success' })
  t.like(await put({ path: 'file', content: 'x' }), ok)
})

const config = 'DISPLAY_NAME=Shop\nMAIN=index.js\nMEMORY=256\nVERSION=recommended\nDESCRIPTION=new'

test.serial('the configuration file is deployed, and the answer is the outcome', async t => {
  const { app, ana, put, remove, files } = await made({ 'berth.app': 'old' })
  const answer = await put({ path: '/berth.app', content: config })
  t.like(answer, ok)
  const operation = await api()
    .db('operations')
    .where({ id: answer.headers.get('x-operation-id') })
    .first()
  t.like(operation, { kind: 'deploy', actor: ana.id, target_id: app.id, state: 'success' })
  const deployment = await api().db('deployments').where({ operation_id: operation.id }).first()
  t.like(deployment, { filename: 'berth.app', path: '', source: 'upload', config: { description: 'new' } })
  const stored = await api().store.get(deployment.segment_id)
  t.is((await stored.toArray()).join(''), config)
  t.is(readFileSync(join(files, 'berth.app'), 'utf8'), 'old', 'placing it is the deployment’s')
  t.like(await put({ path: 'my.app', content: [...Buffer.from(config)] }), ok)
  t.like(await put({ path: 'lib/berth.app', content: 'anything' }), ok)
  t.is(readFileSync(join(files, 'lib/berth.app'), 'utf8'), 'anything')
  t.like(await remove({ path: 'berth.app' }), ok)
})

test.serial('a refused configuration, or one whose deployment fails, is answered with the reason', async t => {
  const { put } = await made({}, { plan: 'hobby-1' })
  const refusals: Record<string, string> = {
    [config.replace('MEMORY=256', 'MEMORY=1')]: 'INVALID_MEMORY',
    [config.replace('VERSION=recommended', '')]: 'MISSING_VERSION',
    [config.replace('MEMORY=256', 'MEMORY=2048')]: 'INSUFFICIENT_MEMORY',
    [`${config}\nSUBDOMAIN=late`.replace('MEMORY=256', 'MEMORY=512')]: 'CANNOT_SET_SUBDOMAIN',
    '': 'MISSING_DISPLAY_NAME',
    ...Object.fromEntries(wrongConfigs.map(([code, keys]) => [configText(keys), code])),
  }
  for (const [content, code] of Object.entries(refusals))
    t.like(await put({ path: 'berth.app', content }), { status: 400, body: { code } }, code)
  const long = await put({ path: 'berth.app', content: `${config}\n#${'x'.repeat(64 * 1024)}` })
  t.like(long, { status: 413, body: { code: 'FILE_TOO_LARGE' } })
  const { lanes } = api()
  const before = lanes.outcome
  lanes.outcome = () => ({ state: 'error', code: 'INVALID_MAIN', message: 'There is no index.js.' })
  const invalid = { status: 400, body: { code: 'INVALID_MAIN', message: 'There is no index.js.' } }
  t.like(await put({ path: 'berth.app', content: config }), invalid)
  lanes.outcome = () => ({ state: 'error', code: 'MISSING_DEPENDENCIES_FILE' })
  const incomplete = { status: 400, body: { code: 'MISSING_DEPENDENCIES_FILE' } }
  t.like(await put({ path: 'berth.app', content: config }), incomplete)
  lanes.outcome = () => ({ state: 'error', code: 'HEALTH_CHECK_FAILED', message: 'It does not answer.' })
  const failed = await put({ path: 'berth.app', content: config })
  t.like(failed, { status: 500, body: { code: 'SAVE_FAILED' } })
  t.regex(failed.body.message, /HEALTH_CHECK_FAILED.*does not answer/)
  lanes.outcome = before
})

test.serial('an application that is being deleted accepts no configuration file', async t => {
  const it = await made()
  const deletion = await deletionUnderWay(api(), it)
  const refused = { status: 400, body: { code: 'COMMIT_FAILED' } }
  t.like(await it.put({ path: 'berth.app', content: config }), refused)
  await deletion.fail()
  api().lanes.asleep = false
})

/** Every way to an application's files once. */
const everyRoute = ({ list, read, put, patch, remove }: ReturnType<typeof speaking>) => [
  list(),
  read('file'),
  put({ path: 'new', content: 'x' }),
  patch({ path: 'file', to: 'other' }),
  remove({ path: 'file' }),
]

test('files that were lost with their disk are not answered as missing', async t => {
  const { files, ...routes } = await made({ file: 'text' })
  renameSync(files, `${files}-elsewhere`)
  for (const answer of everyRoute(routes)) t.like(await answer, { status: 409, body: { code: 'ACTION_FAILED' } })
})

test.serial('a host that takes too long is CLUSTER_TIMEOUT', async t => {
  const { app, ...routes } = await made({ file: 'text' })
  const server = createServer(() => {})
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const row = { address: '127.0.0.1', memory_mb: 1, disk_mb: 1, last_seen_at: '2100-01-01', protections: {} }
  const read_url = await listening(server)
  await api()
    .db('hosts')
    .insert({ id: 'h4', read_url, ...row })
  await api().db('apps').where({ id: app.id }).update({ host_id: 'h4' })
  const before = api().services.files
  api().services.files = httpHostFiles(hostCall(api().db, masterKey), { readMs: 100, changeMs: 100 })
  t.teardown(() => {
    api().services.files = before
  })
  for (const answer of everyRoute(routes)) t.like(await answer, { status: 504, body: { code: 'CLUSTER_TIMEOUT' } })
})

test('dependencies that a deploy has installed are not deleted while they are mounted', async t => {
  const { remove, files } = await made()
  mkdirSync(join(files, 'node_modules'))
  t.like(await remove({ path: 'node_modules' }), { status: 400, body: { code: 'DELETE_FAILED' } })
  t.true(existsSync(join(files, 'node_modules')))
})

test('each application’s files are read from its own host', async t => {
  const second = await fileHost('h2', api().db)
  t.teardown(() => second.stop())
  const onFirst = await made({ where: 'first' })
  const onSecond = await made({ where: 'second' }, { host: Promise.resolve(second) })
  await api().db('apps').where({ id: onSecond.app.id }).update({ host_id: 'h2' })
  for (const [{ read, put, files }, text] of [
    [onFirst, 'first'],
    [onSecond, 'second'],
  ] as const) {
    t.deepEqual((await read('where', 'base64')).body.response.data, Buffer.from(text).toString('base64'))
    t.like(await put({ path: 'new', content: text }), ok)
    t.is(readFileSync(join(files, 'new'), 'utf8'), text)
  }
  await api()
    .db('hosts')
    .where({ id: 'h2' })
    .update({ last_seen_at: new Date(0) })
  t.like(await onSecond.list(), { status: 503, body: { code: 'CLUSTER_UNAVAILABLE' } })
  t.is((await onFirst.list()).status, 200)
})

test('an answer that breaks off at the host breaks off for the client', async t => {
  const server = createServer((_, response) => {
    response.write('[{"name":"a","type":"file","size":0,"lastModified":0}')
    setTimeout(() => response.destroy(), 50)
  })
  t.teardown(() => server.close())
  const { app, list } = await made()
  const row = { address: '127.0.0.1', memory_mb: 1, disk_mb: 1, last_seen_at: '2100-01-01', protections: {} }
  await api()
    .db('hosts')
    .insert({ id: 'h3', read_url: await listening(server), ...row })
  await api().db('apps').where({ id: app.id }).update({ host_id: 'h3' })
  await t.throwsAsync(list())
})

test('changes are serialized with everything else that changes the application', async t => {
  const { app, put, list } = await made()
  let free = () => {}
  const startedAt = (await first()).locks(app.id, () => new Promise<void>(resolve => (free = resolve)))
  let written = false
  const write = put({ path: 'later', content: 'x' }).then(answer => {
    written = true
    return answer
  })
  t.deepEqual(names(await list()), [], 'reads do not wait')
  await new Promise(resolve => setTimeout(resolve, 200))
  t.false(written)
  free()
  await startedAt
  t.like(await write, ok)
})

test.serial('a folder of 100,000 files is listed while others are served by the same processes', async t => {
  t.timeout(120_000)
  const { ana, app, files, list } = await made()
  const count = 100_000
  for (let index = 0; index < count; index++) closeSync(openSync(join(files, `file-${index}`), 'w'))
  let going = true
  const startedAt = performance.now()
  const listed = list().finally(() => (going = false))
  let [served, maxMs] = [0, 0]
  for (; going; served++) {
    const asked = performance.now()
    const answers = await Promise.all([api().as(ana).get('/v2/users/me'), speaking(ana, app).read('file-7', 'base64')])
    if (answers.some(({ status }) => status !== 200)) t.fail('served badly')
    maxMs = Math.max(maxMs, performance.now() - asked)
  }
  const tookMs = performance.now() - startedAt
  const all = new Set(names(await listed))
  t.is(all.size, count)
  t.true(all.has('file-0') && all.has(`file-${count - 1}`))
  const reported = `${served} rounds of requests meanwhile, the longest ${Math.round(maxMs)} ms of ${Math.round(tookMs)} ms`
  t.true(served > 5 && maxMs < tookMs / 2, reported)
  t.log(reported)
})
