import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import test from 'ava'
import type { AppRow } from '../../../../db/apps/apps.ts'
import { newWorkspaceId } from '../../../../policy/ids.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'
import { deletionUnderWay } from '../../../kit/actors/deletions.ts'
import { wrongConfigs } from '../../../kit/wrong-configs.ts'
import { appZip, configText, zipOf } from '../../../kit/zips.ts'

const api = testApi()

async function made(plan?: string): Promise<{ ana: TestUser; app: AppRow }> {
  const ana = await api().makeUser({ plan })
  return { ana, app: await api().makeApp(ana) }
}

function commit(
  user: TestUser,
  appId: string,
  file: Buffer | string,
  {
    name = 'files.zip',
    path,
    key,
    field = 'file',
  }: { name?: string; path?: string; key?: string; field?: string } = {},
) {
  const body = new FormData()
  body.append(field, new Blob([file]), name)
  const query = path === undefined ? '' : `?path=${encodeURIComponent(path)}`
  return api()
    .as(user)
    .post(`/v2/apps/${appId}/commit${query}`, body, key === undefined ? {} : { 'idempotency-key': key })
}

const uploads = (appId: string) =>
  api().db('deployments').where({ app_id: appId, trigger: 'upload' }).whereNotNull('path').orderBy('created_at')

/** Bodies in the store that no row refers to. */
async function leftovers(): Promise<number> {
  const { rows } = await api().db.raw(`select count(*) as loose from segments where refs = 0 and state <> 'drawn'`)
  return Number(rows[0].loose)
}

test.serial('a zip becomes a deployment with its path, and is answered once it is stored', async t => {
  const { ana, app } = await made()
  api().lanes.asleep = true
  const file = zipOf({ 'index.js': '1', 'lib/a.js': '2' })
  const answer = await commit(ana, app.id, file, { path: '/src/./web/' })
  t.deepEqual([answer.status, answer.body], [200, { status: 'success' }])
  const [row] = await uploads(app.id)
  t.like(row, {
    operation_id: answer.headers.get('x-operation-id'),
    revision: createHash('sha256').update(file).digest('hex').slice(0, 40),
    path: 'src/web',
    filename: null,
    config: null,
    source: 'upload',
  })
  t.like(await api().db('segments').where({ id: row.segment_id }).first(), { refs: 1, state: 'stored' })
  t.like(await api().db('operations').where({ id: row.operation_id }).first(), { kind: 'deploy', actor: ana.id })
  const list = (await api().as(ana).get(`/v2/apps/${app.id}/deployments`)).body.response
  t.like(list[0][0], { source: 'upload', state: 'pending', position: 1 })
  t.true(api().lanes.woken.includes(app.id))
  api().lanes.asleep = false
})

test.serial('an application that is being deleted accepts no commit; one whose deletion failed does', async t => {
  const mine = await made()
  const { ana, app } = mine
  const file = zipOf({ 'index.js': '1' })
  const deletion = await deletionUnderWay(api(), mine)
  const refused = await commit(ana, app.id, file)
  t.deepEqual([refused.status, refused.body.code], [400, 'COMMIT_FAILED'])
  t.deepEqual(await uploads(app.id), [])
  t.is((await deletion.fail()).body.code, 'DELETE_ERROR')
  t.is((await commit(ana, app.id, file)).status, 200)
  api().lanes.asleep = false
})

test.serial('any other file is placed under its name; the configuration file is parsed', async t => {
  const { ana, app } = await made()
  t.is((await commit(ana, app.id, 'color: red', { name: 'styles é.css', path: 'public' })).status, 200)
  const settings = 'DISPLAY_NAME=New\nMAIN=later.js\nMEMORY=512\nVERSION=recommended\n'
  t.is((await commit(ana, app.id, settings, { name: 'berth.app' })).status, 200)
  t.is((await commit(ana, app.id, 'not a configuration', { name: 'berth.app', path: 'deeper' })).status, 200)
  const rows = await uploads(app.id)
  t.deepEqual(
    rows.map(row => [row.path, row.filename, row.config?.displayName ?? null, row.config?.memoryMb ?? null]),
    [
      ['public', 'styles é.css', null, null],
      ['', 'berth.app', 'New', 512],
      ['deeper', 'berth.app', null, null],
    ],
  )
})

test.serial(
  'a configuration in the zip may speak of files that are there already; without one the old stays',
  async t => {
    const { ana, app } = await made()
    const config = 'DISPLAY_NAME=Other\nMAIN=index.js\nMEMORY=256\nVERSION=recommended\n'
    t.is((await commit(ana, app.id, zipOf({ 'berth.app': config }))).status, 200)
    t.is((await commit(ana, app.id, zipOf({ 'a.txt': 'x' }))).status, 200)
    t.is((await commit(ana, app.id, zipOf({ 'berth.app': 'nonsense', 'a.txt': 'x' }), { path: 'sub' })).status, 200)
    t.deepEqual(
      (await uploads(app.id)).map(row => row.config?.displayName ?? null),
      ['Other', null, null],
    )
  },
)

test.serial('every refusal has its code and leaves nothing', async t => {
  const { ana, app } = await made('hobby-1')
  const small = zipOf({ 'a.txt': 'x' })
  const cases: [string, () => ReturnType<typeof commit>, number, string][] = [
    ['no zip', () => commit(ana, app.id, 'nonsense'), 400, 'INVALID_FILE'],
    ['slip', () => commit(ana, app.id, zipOf({ '../x': '1' })), 400, 'INVALID_FILE'],
    ['field', () => commit(ana, app.id, small, { field: 'other' }), 400, 'INVALID_FILE'],
    ...['../x', 'a/../../b', '..', 'C:\\x', 'a\\b', 'x'.repeat(257), 'node_modules/a', '.git', 'a\nb', 'a\0b'].map(
      (path): (typeof cases)[number] => [path, () => commit(ana, app.id, small, { path }), 400, 'INVALID_PATH'],
    ),
    ['name', () => commit(ana, app.id, 'x', { name: '.npmrc' }), 400, 'INVALID_FILENAME'],
    ['dots', () => commit(ana, app.id, 'x', { name: '..' }), 400, 'INVALID_FILENAME'],
    ['long name', () => commit(ana, app.id, 'x', { name: `${'x'.repeat(256)}.js` }), 400, 'INVALID_FILENAME'],
    [
      'subdomain',
      () => commit(ana, app.id, appZip({}, { SUBDOMAIN: 'late', MEMORY: 512 })),
      400,
      'CANNOT_SET_SUBDOMAIN',
    ],
    ['no address', () => commit(ana, app.id, appZip({}, { HEALTH: '/ready' })), 400, 'INVALID_HEALTH'],
    ['memory', () => commit(ana, app.id, appZip({}, { MEMORY: 1280 })), 400, 'INSUFFICIENT_MEMORY'],
    ...wrongConfigs.flatMap(([code, keys]): typeof cases => [
      [code, () => commit(ana, app.id, appZip({}, keys)), 400, code],
      [`${code} of a file`, () => commit(ana, app.id, configText(keys), { name: 'berth.app' }), 400, code],
    ]),
    ['long file', () => commit(ana, app.id, `#${'x'.repeat(70_000)}`, { name: 'berth.config' }), 400, 'INVALID_FILE'],
  ]
  for (const [name, answering, status, code] of cases) {
    const answer = await answering()
    t.deepEqual([answer.status, answer.body.code], [status, code], `${name}: ${answer.text}`)
  }
  t.is((await uploads(app.id)).length, 0)
  t.is(await leftovers(), 0)
  t.is((await commit(ana, app.id, appZip({}, { MEMORY: 1024 }))).status, 200, 'its own memory counts as free')
})

test.serial(
  'a configuration without SUBDOMAIN keeps the address, and with it the memory that an address needs',
  async t => {
    const ana = await api().makeUser()
    const app = await api().makeApp(ana, { subdomain: 'stays-here', memoryMb: 512 })
    for (const file of [appZip({}, { MEMORY: 511 }), appZip({}, { MEMORY: 256 })]) {
      const refused = await commit(ana, app.id, file)
      t.deepEqual([refused.status, refused.body.code], [400, 'INVALID_MEMORY'], refused.text)
      t.regex(refused.body.message, /from 512 to 32768.*stays-here/)
    }
    const alone = await commit(ana, app.id, configText({ MEMORY: 256 }), { name: 'berth.app' })
    t.deepEqual([alone.status, alone.body.code], [400, 'INVALID_MEMORY'])
    t.is((await uploads(app.id)).length, 0)
    t.is((await commit(ana, app.id, appZip({}, { MEMORY: 512 }))).status, 200)
  },
)

test.serial('a program whose dependency files are in the application is accepted without them', async t => {
  const { ana, app } = await made()
  // Whether they are there is found out at the host, and reported by the deployment.
  const config = configText({ MAIN: 'main.go' })
  t.is((await commit(ana, app.id, zipOf({ 'berth.app': config }))).status, 200)
  t.is((await commit(ana, app.id, config, { name: 'berth.app' })).status, 200)
  t.is((await uploads(app.id)).length, 2)
})

test.serial('over 100 MB is FILE_TOO_LARGE, by its declared length', async t => {
  const { ana, app } = await made()
  const headers = {
    authorization: ana.key,
    'content-type': 'multipart/form-data; boundary=x',
    'content-length': 200_000_000,
  }
  const sending = request(`${api().url}/v2/apps/${app.id}/commit`, { method: 'POST', headers })
  sending.on('error', () => {})
  sending.flushHeaders()
  const [answer] = await once(sending, 'response')
  t.is(answer.statusCode, 413)
  t.is(JSON.parse((await answer.toArray()).join('')).code, 'FILE_TOO_LARGE')
  sending.destroy()
})

test.serial('an unavailable store is STORAGE_UPLOAD_FAILED; a deleted application is APP_NOT_FOUND', async t => {
  const { ana, app } = await made()
  api().store.failing = true
  t.is((await commit(ana, app.id, zipOf({ a: '1' }))).body.code, 'STORAGE_UPLOAD_FAILED')
  api().store.failing = false
  const reading = api().services.archives.inspect
  api().services.archives.inspect = async (...args) => {
    const found = await reading.apply(api().services.archives, args)
    await api().db('apps').where({ id: app.id }).delete()
    return found
  }
  t.is((await commit(ana, app.id, zipOf({ a: '1' }))).body.code, 'APP_NOT_FOUND')
  api().services.archives.inspect = reading
  t.is(await leftovers(), 0)
})

test.serial('an Idempotency-Key creates one deployment; another path or file with it is refused', async t => {
  const { ana, app } = await made()
  const file = zipOf({ a: '1' })
  const first = await commit(ana, app.id, file, { key: 'k1' })
  const again = await commit(ana, app.id, file, { key: 'k1' })
  t.deepEqual([first.status, again.status], [200, 200])
  t.is(again.headers.get('idempotent-replayed'), 'true')
  t.is(again.headers.get('x-operation-id'), first.headers.get('x-operation-id'))
  t.deepEqual(again.body, { status: 'success' })
  t.is((await commit(ana, app.id, file, { key: 'k1', path: 'x' })).body.code, 'IDEMPOTENCY_KEY_REUSED')
  t.is((await commit(ana, app.id, zipOf({ a: '2' }), { key: 'k1' })).body.code, 'IDEMPOTENCY_KEY_REUSED')
  t.is((await uploads(app.id)).length, 1)
})

test.serial('a commit by a member of a workspace is limited by the plan of the owner', async t => {
  const memory = async (ownerPlan: string, memberPlan: string) => {
    const { ana, app } = await made(ownerPlan)
    const bob = await api().makeUser({ plan: memberPlan })
    const workspace = { id: newWorkspaceId(), owner_id: ana.id, name: 'team' }
    await api().db('workspaces').insert(workspace)
    await api().db('workspace_members').insert({ workspace_id: workspace.id, user_id: bob.id, role: 'maintain' })
    await api().db('workspace_apps').insert({ workspace_id: workspace.id, app_id: app.id })
    return commit(bob, `${app.id}-${workspace.id}`, appZip({}, { MEMORY: 1280 }))
  }
  t.is((await memory('standard-4', 'hobby-1')).status, 200)
  t.is((await memory('hobby-1', 'standard-4')).body.code, 'INSUFFICIENT_MEMORY')
})
