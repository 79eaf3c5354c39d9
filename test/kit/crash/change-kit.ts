import { createHash, randomBytes } from 'node:crypto'
import { issueInvite } from '../../../db/accounts/workspace-members.ts'
import type { Db } from '../../../db/database.ts'
import { assignDomain } from '../../../db/domains/domains.ts'
import { linkRepository } from '../../../db/git/git-links.ts'
import { mailedCode } from '../../../policy/accounts/mailed-codes.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { type Answer, masterKey, type TestApi, type TestUser } from '../actors/api.ts'
import { chunkedAs } from '../actors/chunked.ts'
import { madeObject } from '../objects/stored-objects.ts'
import { makeWorkspace } from '../rows/workspaces.ts'

type Ask = () => Promise<Answer>

/** A change that one commit makes, and no lane carries out: makes what it needs, and gives the request. */
export type Change = (api: TestApi, ana: TestUser) => Promise<Ask>

const json = JSON.stringify

const onManagement =
  (method: string, path: string, body?: object): Change =>
  async (api, ana) =>
  () =>
    api.as(ana.session).request(method, path, { body: body && json(body) })

const ofApp =
  (method: string, path: string, body?: object, before?: (db: Db, appId: string, ana: TestUser) => Promise<unknown>) =>
  async (api: TestApi, ana: TestUser): Promise<Ask> => {
    const { id } = await api.makeApp(ana)
    await before?.(api.db, id, ana)
    return () => api.as(ana).request(method, `/v2/apps/${id}/${path}`, { body: body && json(body) })
  }

/** In a workspace of Ana's with Bo in it, and with an application of hers that is shared, or is not. */
const ofWorkspace =
  (
    method: string,
    path: string,
    bodyOf: (names: { appId: string; memberId: string; code: string }) => object = () => ({}),
    { shared = false, as = 'ana' }: { shared?: boolean; as?: 'ana' | 'bo' } = {},
  ) =>
  async (api: TestApi, ana: TestUser): Promise<Ask> => {
    const [bo, guest, app] = [await api.makeUser(), await api.makeUser(), await api.makeApp(ana)]
    const contents = { members: [[bo, 'view']] as const, apps: shared ? [app] : [] }
    const { id: workspaceId } = await makeWorkspace(api.db, ana, contents)
    const names = { appId: app.id, memberId: bo.id, code: await issueInvite(api.db, guest.id) }
    const body = json({ workspaceId, ...bodyOf(names) })
    return () => api.as(as === 'ana' ? ana : bo).request(method, `/v2/workspaces${path}`, { body })
  }

const ofObject =
  (method: string, path: string, bodyOf: (object: string) => object, before?: typeof shareOf) =>
  async (api: TestApi, ana: TestUser): Promise<Ask> => {
    const { id } = await madeObject(api, ana)
    const body = json(bodyOf(before ? await before(api, ana, id) : id))
    return () => api.blobAs(ana).request(method, path, { body })
  }

const shareOf = async (api: TestApi, ana: TestUser, object: string): Promise<string> =>
  (await api.blobAs(ana).post('/v1/shares', json({ object }))).body.response.id

const ofChunked =
  (ask: (chunked: ReturnType<typeof chunkedAs>, upload: string) => Promise<Answer>, parts = 0) =>
  async (api: TestApi, ana: TestUser): Promise<Ask> => {
    const chunked = chunkedAs(api.blobAs(ana))
    const { upload } = (await chunked.init()).body.response
    for (let part = 1; part <= parts; part++) await chunked.part(upload, part, 'the only part')
    return () => ask(chunked, upload)
  }

const upload =
  (bytes: number): Change =>
  async (api, ana) => {
    const content = randomBytes(bytes)
    const name = randomBytes(4).toString('hex')
    return () => {
      const form = new FormData()
      form.append('file', new Blob([content]), `${name}.txt`)
      return api.blobAs(ana).post(`/v1/objects?name=${name}`, form)
    }
  }

const authorized =
  (path: '' | '/claim', granted: boolean): Change =>
  async (api, ana) => {
    const verifier = randomBytes(32).toString('base64url')
    const redirect_uri = 'http://127.0.0.1:7777/back'
    const challenge = createHash('sha256').update(verifier).digest('base64url')
    const asked = { client_id: 'berth-cli', redirect_uri, scopes: ['apps:read'], challenge, challenge_method: 'S256' }
    const post = (at: string, body: object, who?: string) => api.as(who).post(`/v2/account/authorize${at}`, json(body))
    const { code } = (await post('/start', asked)).body.response
    if (granted) await post('', { code, granted: true }, ana.session)
    return () => (path ? post(path, { code, verifier, redirect_uri }) : post('', { code, granted: true }, ana.session))
  }

const signingIn: Change = async (api, ana) => {
  const { email } = await api.db('users').where({ id: ana.id }).first()
  const post = (at: string, body: object) => api.as(undefined).post(`/v2/account/sign-in${at}`, json(body))
  const { id } = (await post('', { email })).body.response
  return () => post('/code', { id, code: mailedCode(masterKey, 'sign-in', id) })
}

const downgrading =
  (confirmed: boolean): Change =>
  async (api, ana) => {
    const post = (body?: object) => api.as(ana.session).post('/v2/account/downgrade', body && json(body))
    if (!confirmed) return () => post()
    await post()
    const { id } = await api.db('downgrades').where({ user_id: ana.id }).first()
    return () => post({ confirmCode: mailedCode(masterKey, 'downgrade', id) })
  }

let linked = 0
const linkedBefore = async (db: Db, appId: string, ana: TestUser) => {
  const [id, repository] = [++linked, { id: linked, fullName: `ana/${linked}`, cloneUrl: 'https://git.example.org/a' }]
  await db('git_installations').insert({ user_id: ana.id, id, account: 'ana', member: 'ana', member_id: 1 })
  await linkRepository(db, { appId, userId: ana.id, installationId: id, repository, branch: 'main' })
}

const withDomain = (db: Db, id: string, ana: TestUser) =>
  assignDomain(db, { app: { id, owner_id: ana.id }, hostname: `${id}.example.com`, plans: defaultPlans })

/** By the names of their endpoints; a second word distinguishes two variants of one. */
export const changes: Record<string, Change> = {
  'account.apikey': onManagement('GET', '/v2/account/apikey'),
  'account.locale': onManagement('PATCH', '/v2/account/locale', { locale: 'pt-BR' }),
  'account.username': onManagement('PATCH', '/v2/account/username', { username: 'Anna' }),
  'account.sign-in.begin': async (api, ana) => {
    const { email } = await api.db('users').where({ id: ana.id }).first()
    return () => api.as(undefined).post('/v2/account/sign-in', json({ email }))
  },
  'account.sign-in.end': signingIn,
  'account.session.renew': onManagement('POST', '/v2/account/session'),
  'account.session.end': onManagement('DELETE', '/v2/account/session'),
  'account.authorize.decide': authorized('', false),
  'account.authorize.claim': authorized('/claim', true),
  'account.downgrade code': downgrading(false),
  'account.downgrade confirmed': downgrading(true),
  'apps.envs.merge': ofApp('POST', 'envs', { envs: { A: '1' } }),
  'apps.envs.replace': ofApp('PUT', 'envs', { envs: { A: '1' } }),
  'apps.network.custom': async (api, ana) => {
    const subdomain = `app-${randomBytes(6).toString('hex')}`
    const { id } = await api.makeApp(ana, { subdomain })
    const body = json({ custom: `${subdomain}.example.com` })
    return () => api.as(ana).post(`/v2/apps/${id}/network/custom`, body)
  },
  'apps.network.custom removed': ofApp('POST', 'network/custom', { custom: '@' }, withDomain),
  'apps.network.settings.update': ofApp('PATCH', 'network/settings', { maintenance: true }),
  'apps.webhook': ofApp('POST', 'deploy/webhook', { access_token: 'x' }),
  'apps.unlink': ofApp('DELETE', 'deploy/github-app', undefined, linkedBefore),
  'databases.update': async (api, ana) => {
    const { id } = await api.makeDatabase(ana)
    return () => api.as(ana).request('PATCH', `/v2/databases/${id}`, { body: json({ name: 'renamed' }) })
  },
  'workspaces.create': onManagement('POST', '/v2/workspaces', { name: 'team' }),
  'workspaces.delete': ofWorkspace('DELETE', ''),
  'workspaces.leave': ofWorkspace('DELETE', '/leave', undefined, { as: 'bo' }),
  'workspaces.members.code': onManagement('GET', '/v2/workspaces/members/code'),
  'workspaces.members.add': ofWorkspace('POST', '/members', ({ code }) => ({ code, group: 'view' })),
  'workspaces.members.change': ofWorkspace('PATCH', '/members', ({ memberId }) => ({ memberId, group: 'manager' })),
  'workspaces.members.remove': ofWorkspace('DELETE', '/members', ({ memberId }) => ({ memberId })),
  'workspaces.apps.share': ofWorkspace('POST', '/applications', ({ appId }) => ({ appId })),
  'workspaces.apps.unshare': ofWorkspace('DELETE', '/applications', ({ appId }) => ({ appId }), { shared: true }),
  'objects.upload large': upload(40_000),
  'objects.upload small': upload(100),
  'objects.update': ofObject('PATCH', '/v1/objects', object => ({ object, cache_control: 'no-cache' })),
  'objects.delete': ofObject('DELETE', '/v1/objects', object => ({ object })),
  'objects.copy': ofObject('POST', '/v1/objects/copy', source => ({ source, destination: { name: 'copy' } })),
  'chunked.init': async (api, ana) => () => chunkedAs(api.blobAs(ana)).init(),
  'chunked.part': ofChunked((chunked, id) => chunked.part(id, 1, 'the only part')),
  'chunked.complete': ofChunked((chunked, id) => chunked.complete(id), 1),
  'chunked.abort': ofChunked((chunked, id) => chunked.abort(id)),
  'shares.create': ofObject('POST', '/v1/shares', object => ({ object })),
  'shares.delete': ofObject('DELETE', '/v1/shares', id => ({ id }), shareOf),
  'upload-tokens.create': async (api, ana) => () => api.blobAs(ana).post('/v1/upload-tokens', json({})),
  'rules.save': async (api, ana) => () =>
    api
      .blobAs(ana)
      .request('PUT', '/v1/account/settings', { body: json({ rules: [{ prefix: 'a/', max_size: 512 }] }) }),
}

/** Counters, leases and what is swept: these change with a request that does nothing, too. */
const aside = ['rate_limits', 'audit', 'blob_leases', 'quota_leases', 'blob_usage', 'usage_deltas', 'segments', 'hosts']

/** Everything that is stored, table by table: lines of JSON. */
export async function stored(db: Db): Promise<Record<string, string[]>> {
  const { rows: tables } = await db.raw(`select tablename as name from pg_tables where schemaname = 'public'`)
  const counts = tables
    .map(({ name }: { name: string }) => name)
    .filter((name: string) => !aside.includes(name))
    .map(async (name: string) => {
      // A wrong try is counted whether the command is done or not.
      const line = `(to_jsonb(t) - 'attempts')::text as line`
      const { rows: lines } = await db.raw(`select ${line} from ?? t order by 1`, [name])
      return [name, lines.map((row: { line: string }) => row.line)]
    })
  return Object.fromEntries(await Promise.all(counts))
}
