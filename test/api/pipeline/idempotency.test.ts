import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import test from 'ava'
import { openApiDocument } from '../../../api/pipeline/openapi.ts'
import { blobEndpoints } from '../../../api/v1/endpoints.ts'
import { endpoints } from '../../../api/v2/endpoints.ts'
import { issueInvite } from '../../../db/accounts/workspace-members.ts'
import { transaction } from '../../../db/database.ts'
import { queueDatabaseSnapshot } from '../../../db/databases/database-snapshots.ts'
import * as segments from '../../../db/objects/segments.ts'
import { enqueueDeletion } from '../../../db/operations/operations.ts'
import { markSnapshotGood, queueSnapshot } from '../../../db/snapshots/snapshots.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { type Answer, type TestUser, testApi } from '../../kit/actors/api.ts'
import { makeWorkspace } from '../../kit/rows/workspaces.ts'
import { appZip } from '../../kit/zips.ts'

const api = testApi()

test.beforeEach('snapshots are taken', () => {
  api().lanes.outcome = async operation => {
    if (operation.kind !== 'snapshot') return { state: 'success' }
    const segmentId = await segments.allocateSegment(api().db)
    const { size, sha256 } = await api().store.put(segmentId, Readable.from([randomBytes(100)]))
    const good = { segmentId, size, sha256, digest: randomBytes(32).toString('hex') }
    await transaction(api().db, trx => markSnapshotGood(trx, operation.id, good))
    return { state: 'success' }
  }
})

interface Request {
  path: string
  body?: RequestInit['body']
}

/** One account that is about to create something. */
interface Creation {
  request: Request
  /** The same route, or one of its applications, with something else to create. */
  other: Request
  /** How much of it there is. */
  made(): Promise<number>
  /** What is refused from now on for what the request asks, with a status that says something about it. */
  refuse(): Promise<unknown>
}

const count = async (table: string, where: object): Promise<number> => (await api().db(table).where(where)).length
const json = (path: string, body: object): Request => ({ path, body: JSON.stringify(body) })
const file = (path: string, name: string, bytes: Buffer): Request => {
  const body = new FormData()
  body.append('file', new Blob([new Uint8Array(bytes)]), name)
  return { path, body }
}

/** Every POST that creates something (contract 1.20). */
const creations: Record<string, (ana: TestUser) => Promise<Creation>> = {
  async 'apps.create'({ id }) {
    return {
      request: file('/v2/apps', 'a.zip', appZip()),
      other: file('/v2/apps', 'a.zip', appZip({ 'more.js': '' })),
      made: () => count('apps', { owner_id: id }),
      refuse: () => api().db('users').where({ id }).update({ plan: 'free' }),
    }
  },
  async 'apps.commit'(ana) {
    const { id } = await api().makeApp(ana)
    const path = `/v2/apps/${id}/commit`
    return {
      request: file(path, 'berth.app', Buffer.from(appConfig)),
      other: file(path, 'berth.app', Buffer.from(`${appConfig}\n`)),
      made: () => count('deployments', { app_id: id, trigger: 'upload', path: '' }),
      refuse: () => enqueueDeletion(api().db, { targetId: id, kind: 'delete', ownerId: ana.id, actor: ana.id }),
    }
  },
  async 'apps.snapshots.create'(ana) {
    const [{ id }, other] = [await api().makeApp(ana), await api().makeApp(ana)]
    const snapshot = { appId: id, ownerId: ana.id, actor: ana.id, origin: 'manual', plans } as const
    return {
      request: { path: `/v2/apps/${id}/snapshots` },
      other: { path: `/v2/apps/${other.id}/snapshots` },
      made: () => count('snapshots', { owner_id: ana.id }),
      refuse: () => transaction(api().db, trx => queueSnapshot(trx, snapshot)),
    }
  },
  async 'databases.create'({ id }) {
    const redis = { name: 'cache', type: 'redis', version: '8', memory: 512 }
    return {
      request: json('/v2/databases', redis),
      other: json('/v2/databases', { ...redis, name: 'queue' }),
      made: () => count('databases', { owner_id: id }),
      refuse: () => api().makeDatabase({ id } as TestUser, { ramMb: 32_768 }),
    }
  },
  async 'databases.snapshots.create'(ana) {
    const [{ id }, other] = [await api().makeDatabase(ana), await api().makeDatabase(ana)]
    const snapshot = { databaseId: id, ownerId: ana.id, actor: ana.id, origin: 'manual', plans } as const
    return {
      request: { path: `/v2/databases/${id}/snapshots` },
      other: { path: `/v2/databases/${other.id}/snapshots` },
      made: () => count('snapshots', { owner_id: ana.id }),
      refuse: () => transaction(api().db, trx => queueDatabaseSnapshot(trx, snapshot)),
    }
  },
  async 'workspaces.create'({ id }) {
    return {
      request: json('/v2/workspaces', { name: 'team' }),
      other: json('/v2/workspaces', { name: 'crew' }),
      made: () => count('workspaces', { owner_id: id }),
      refuse: async () => {
        for (let n = 0; n < 50; n++) await makeWorkspace(api().db, { id })
      },
    }
  },
  async 'workspaces.members.add'(ana) {
    const { id: workspaceId } = await makeWorkspace(api().db, ana)
    const code = await issueInvite(api().db, (await api().makeUser()).id)
    return {
      request: json('/v2/workspaces/members', { workspaceId, code, group: 'view' }),
      other: json('/v2/workspaces/members', { workspaceId, code, group: 'admin' }),
      made: () => count('workspace_members', { workspace_id: workspaceId }),
      refuse: () => api().db('workspace_invites').delete(),
    }
  },
  async 'workspaces.apps.share'(ana) {
    const { id: workspaceId } = await makeWorkspace(api().db, ana)
    const [app, other] = [await api().makeApp(ana), await api().makeApp(ana)]
    return {
      request: json('/v2/workspaces/applications', { workspaceId, appId: app.id }),
      other: json('/v2/workspaces/applications', { workspaceId, appId: other.id }),
      made: () => count('workspace_apps', { workspace_id: workspaceId }),
      refuse: () => api().db('workspace_apps').insert({ workspace_id: workspaceId, app_id: app.id }),
    }
  },
}

const appConfig = 'DISPLAY_NAME=hello\nMAIN=index.js\nMEMORY=256\nVERSION=recommended\n'

test('every POST that creates something takes an Idempotency-Key, and the document says so', t => {
  const { paths } = openApiDocument(endpoints, 'http://x') as { paths: Record<string, Record<string, Operation>> }
  const reported = Object.values(paths)
    .flatMap(methods => Object.entries(methods))
    .filter(([, { parameters }]) => parameters.some(({ name }) => name === 'Idempotency-Key'))
  t.deepEqual(
    reported.map(([method, { operationId }]) => `${method} ${operationId}`).sort(),
    Object.keys(creations)
      .map(name => `post ${name}`)
      .sort(),
  )
})

/** What a POST without the header does instead of creating something; every other one has to take it. */
const createsNothing: Record<string, string> = {
  'account.sign-in.begin': 'mails a code; nobody is signed in yet',
  'account.sign-in.end': 'takes a code, which works once',
  'account.session.renew': 'lets a session go on',
  'account.captcha': 'takes an answer, which counts once',
  'account.authorize.start': 'nobody is signed in yet; what is not granted ends by itself',
  'account.authorize.decide': 'says yes or no to one grant',
  'account.authorize.claim': 'may be repeated by itself, and gives the same key',
  'account.downgrade': 'has a code of its own, which works once',
  'apps.start': 'changes what is wanted',
  'apps.stop': 'changes what is wanted',
  'apps.restart': 'changes what is wanted',
  'apps.envs.merge': 'sets values by name',
  'apps.webhook': 'keeps the address that is there',
  'apps.network.custom': 'sets a name, which is there already',
  'apps.network.purge_cache': 'a second purge removes nothing more',
  'apps.link': 'refused when there is a link',
  'apps.snapshots.restore': 'refused while one runs',
  'databases.start': 'changes what is wanted',
  'databases.stop': 'changes what is wanted',
  'databases.reset': 'each replaces what is there',
  'databases.snapshots.restore': 'refused while one runs',
  'git.webhook': 'a delivery has an id of its own',
  'git.app': 'a delivery has an id of its own',
  'git.connect.begin': 'sends a person on',
  'ai.chat': 'changes nothing; each answer is another one',
  'git.connect.confirm': 'binds one installation, again if need be',
}

test('a POST without an Idempotency-Key is listed with what it does instead of creating', t => {
  const without = [...endpoints, ...blobEndpoints].filter(
    ({ method, errors }) => method === 'POST' && !errors?.includes('IDEMPOTENCY_KEY_REUSED'),
  )
  t.deepEqual(without.map(({ name }) => name).sort(), Object.keys(createsNothing).sort())
})

test('the blob API accepts it on every creation', t => {
  const taking = blobEndpoints.filter(({ errors }) => errors?.includes('IDEMPOTENCY_KEY_REUSED'))
  t.deepEqual(taking.map(({ method, name }) => `${method} ${name}`).sort(), [
    'POST chunked.init',
    'POST objects.copy',
    'POST objects.upload',
    'POST shares.create',
    'POST upload-tokens.create',
  ])
})

interface Operation {
  operationId: string
  parameters: { name: string }[]
}

const send = (who: TestUser, { path, body }: Request, key: string): Promise<Answer> =>
  api().as(who).post(path, body, { 'idempotency-key': key })

const said = ({ status, body }: Answer) => [status, body.code]
const replayed = ({ headers }: Answer) => headers.get('idempotent-replayed')

/** What another route is asked: it never comes to be done. */
const elsewhere = { workspaceId: 'b'.repeat(40), code: '0'.repeat(32), group: 'view' }

for (const [name, wishOf] of Object.entries(creations)) {
  test.serial(`${name}: an idempotency key creates once and gets one answer`, async t => {
    const ana = await api().makeUser()
    const { request, other, made } = await wishOf(ana)
    const before = await made()
    const first = await send(ana, request, 'k')
    const again = await send(ana, request, 'k')
    t.deepEqual([first.status, replayed(first)], [200, null], first.text)
    t.deepEqual([again.status, again.text, replayed(again)], [200, first.text, 'true'])
    t.is(again.headers.get('x-operation-id'), first.headers.get('x-operation-id'))
    t.is(await made(), before + 1)
    t.is(await count('audit', { actor: ana.id, action: name }), 1, 'it stands once in the record')

    t.deepEqual(said(await send(ana, other, 'k')), [409, 'IDEMPOTENCY_KEY_REUSED'], 'something else')
    const route = name === 'workspaces.members.add' ? json('/v2/workspaces', { name: 'x' }) : undefined
    const strange = route ?? json('/v2/workspaces/members', elsewhere)
    t.deepEqual(said(await send(ana, strange, 'k')), [409, 'IDEMPOTENCY_KEY_REUSED'], 'another route')
    t.is(await made(), before + 1)

    const bob = await api().makeUser()
    const his = await wishOf(bob)
    t.deepEqual([(await send(bob, his.request, 'k')).status, await his.made()], [200, before + 1], 'another account')

    await api().db('idempotency_keys').where({ user_id: ana.id }).update({ status: null })
    t.deepEqual(said(await send(ana, request, 'k')), [409, 'IDEMPOTENCY_IN_PROGRESS'], 'while the first runs')
    await api()
      .db('idempotency_keys')
      .where({ user_id: ana.id })
      .update({ created_at: api().db.raw(`now() - interval '25 hours'`) })
    t.is(replayed(await send(ana, other, 'k')), null, 'a day later it is another key')
  })

  test.serial(`${name}: ten concurrent requests with one key`, async t => {
    const ana = await api().makeUser()
    const { request, made } = await wishOf(ana)
    const before = await made()
    const answers = await Promise.all(Array.from({ length: 10 }, () => send(ana, request, 'k')))
    t.is(await made(), before + 1)
    const done = answers.filter(({ status }) => status === 200)
    t.is(new Set(done.map(({ text }) => text)).size, 1)
    for (const answer of answers.filter(one => !done.includes(one))) {
      // A snapshot that is stored and not yet taken has an answer that can be repeated.
      const taken = name.endsWith('snapshots.create') && answer.status === 202
      t.deepEqual(said(answer), taken ? [202, 'SNAPSHOT_PROCESSING'] : [409, 'IDEMPOTENCY_IN_PROGRESS'])
    }
    t.is(done.filter(answer => replayed(answer) === null).length, 1)
  })

  test.serial(`${name}: a refusal is repeated, and an invalid key is refused`, async t => {
    const ana = await api().makeUser()
    const { request, made, refuse } = await wishOf(ana)
    for (const key of ['', 'x'.repeat(256), 'é', 'a\tb'])
      t.deepEqual(said(await send(ana, request, key)), [400, 'INVALID_PARAMETERS'], key)
    await refuse()
    const before = await made()
    const [first, again] = [await send(ana, request, 'k'), await send(ana, request, 'k')]
    t.true(first.status === 400 || first.status === 404 || first.status === 409, first.text)
    t.deepEqual([again.status, again.text, replayed(again)], [first.status, first.text, 'true'])
    t.is(await made(), before)
  })
}

test.serial('refusals by the plan or an unavailable platform can be retried with the same key', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const workspace = json('/v2/workspaces', { name: 'team' })
  t.deepEqual(said(await send(ana, workspace, 'plan')), [403, 'UPGRADE_REQUIRED'])
  await api().db('users').where({ id: ana.id }).update({ plan: 'standard-4' })
  t.is((await send(ana, workspace, 'plan')).status, 200)

  await api().db('hosts').update({ draining: true })
  const upload = () => send(ana, file('/v2/apps', 'a.zip', appZip()), 'host')
  t.deepEqual(said(await upload()), [503, 'CLUSTER_MAINTENANCE_TRY_LATER'])
  await api().db('hosts').update({ draining: false })
  t.is((await upload()).status, 200)
})

test.serial('an answer is repeated to its credential and to unlimited keys, never to another limited one', async t => {
  const ana = await api().makeUser()
  const minted = (who: TestUser | string, key: string) =>
    api().blobAs(who).post('/v1/upload-tokens', '{}', { 'idempotency-key': key })
  const limited = (await api().makeKey(ana, { scopes: ['blob:write'], prefixes: ['own/'] })).key
  const other = (await api().makeKey(ana, {})).key
  const first = await minted(ana, 'k')
  t.is(first.status, 200, first.text)
  t.deepEqual(said(await minted(limited, 'k')), [409, 'IDEMPOTENCY_KEY_REUSED'])
  t.deepEqual([replayed(await minted(ana, 'k')), replayed(await minted(other, 'k'))], ['true', 'true'])
  const write = JSON.stringify({ prefix: 'own' })
  const own = () => api().blobAs(limited).post('/v1/upload-tokens', write, { 'idempotency-key': 'mine' })
  t.is(replayed(await own()), null)
  t.is(replayed(await own()), 'true', 'its own')
})
