import test from 'ava'
import type { Endpoint } from '../../api/pipeline/endpoint.ts'
import { endpoints } from '../../api/v2/endpoints.ts'
import { revokeKey, revokeSession, setBlocked } from '../../db/accounts/accounts.ts'
import { issueInvite, leaveWorkspace } from '../../db/accounts/workspace-members.ts'
import {
  memberRoles,
  type Permission,
  permissionScopes,
  permissions,
  roles,
} from '../../policy/accounts/permissions.ts'
import { type Scope, scopes } from '../../policy/accounts/scopes.ts'
import { type Answer, codeOf, type TestUser, testApi } from '../kit/actors/api.ts'
import { makeWorkspace } from '../kit/rows/workspaces.ts'

const api = testApi()

/**
 * Who may call: everybody, a session, or a key with a scope; the least role that may where somebody else's application or workspace is
 * concerned; and the answer to such a caller's request without a body, about an application that has only just been stored, or a database
 * that runs.
 */
type Row = readonly [who: 'public' | 'session' | Scope, least: (typeof roles)[number] | null, granted: number]

/** Contract 2.1, 2.3, 2.4 and 2.5. Every operation must be here, or the test fails. */
const table: Record<string, Row> = {
  'users.me': ['account:read', null, 200],
  'users.snapshots': ['snapshots:read', null, 200],
  'account.apikey': ['session', null, 200],
  'account.audit': ['account:read', null, 200],
  'sign-in.page': ['public', null, 200],
  'account.sign-in.begin': ['public', null, 400],
  'account.sign-in.end': ['public', null, 400],
  'account.session.renew': ['session', null, 200],
  'account.session.end': ['session', null, 200],
  'account.captcha': ['session', null, 400],
  'authorize.page': ['public', null, 200],
  'account.authorize.start': ['public', null, 400],
  'account.authorize.show': ['session', null, 400],
  'account.authorize.decide': ['session', null, 400],
  'account.authorize.claim': ['public', null, 400],
  'account.downgrade': ['session', null, 200],
  'account.locale': ['session', null, 400],
  'account.username': ['session', null, 400],
  'apps.create': ['apps:write', null, 415],
  'apps.status.all': ['apps:read', null, 200],
  'apps.info': ['apps:read', 'view', 200],
  'apps.delete': ['apps:write', 'owner', 200],
  'apps.status': ['apps:read', 'view', 200],
  'apps.logs': ['apps:read', 'view', 503],
  'apps.metrics': ['apps:read', 'view', 400],
  'apps.realtime': ['apps:read', 'view', 503],
  'apps.network.analytics': ['apps:read', 'view', 200],
  'apps.network.errors': ['apps:read', 'view', 200],
  'apps.network.logs': ['apps:read', 'view', 200],
  'apps.network.performance': ['apps:read', 'view', 200],
  'apps.start': ['apps:control', 'manager', 200],
  'apps.stop': ['apps:control', 'manager', 200],
  'apps.restart': ['apps:control', 'manager', 200],
  'apps.commit': ['apps:deploy', 'maintain', 415],
  'apps.files': ['files:read', 'maintain', 503],
  'apps.files.content': ['files:read', 'maintain', 400],
  'apps.files.write': ['files:write', 'maintain', 400],
  'apps.files.move': ['files:write', 'maintain', 400],
  'apps.files.delete': ['files:write', 'maintain', 400],
  'apps.envs': ['envs:read', 'admin', 200],
  'apps.envs.merge': ['envs:write', 'admin', 400],
  'apps.envs.replace': ['envs:write', 'admin', 400],
  'apps.envs.remove': ['envs:write', 'admin', 400],
  'apps.domains': ['apps:read', null, 200],
  'apps.load-balancers': ['apps:read', null, 200],
  'apps.network.custom': ['apps:write', 'admin', 400],
  'apps.network.dns': ['apps:read', 'maintain', 400],
  'apps.network.settings': ['apps:read', 'maintain', 200],
  'apps.network.settings.update': ['apps:write', 'admin', 400],
  'apps.network.purge_cache': ['apps:write', 'maintain', 500],
  'apps.webhook': ['apps:deploy', 'admin', 400],
  'apps.link': ['apps:deploy', 'admin', 400],
  'apps.unlink': ['apps:deploy', 'admin', 400],
  'apps.deployments': ['apps:read', 'view', 200],
  'apps.deployments.current': ['apps:read', 'manager', 200],
  'apps.deployments.logs': ['apps:read', 'view', 404],
  'apps.deliveries': ['apps:read', 'view', 200],
  'apps.snapshots': ['snapshots:read', 'admin', 200],
  'apps.snapshots.create': ['snapshots:write', 'admin', 200],
  'apps.snapshots.restore': ['snapshots:write', 'admin', 400],
  'apps.snapshots.restore.state': ['snapshots:read', 'admin', 200],
  'databases.create': ['databases:write', null, 400],
  'databases.status.all': ['databases:read', null, 200],
  'databases.info': ['databases:read', null, 200],
  'databases.update': ['databases:write', null, 400],
  'databases.delete': ['databases:write', null, 200],
  'databases.start': ['databases:write', null, 200],
  'databases.stop': ['databases:write', null, 200],
  'databases.status': ['databases:read', null, 200],
  'databases.metrics': ['databases:read', null, 200],
  'databases.logs': ['databases:read', null, 503],
  'databases.certificate': ['databases:credentials', null, 200],
  'databases.reset': ['databases:credentials', null, 400],
  'databases.snapshots': ['snapshots:read', null, 200],
  'databases.snapshots.create': ['snapshots:write', null, 200],
  'databases.snapshots.restore': ['snapshots:write', null, 400],
  'databases.snapshots.restore.state': ['snapshots:read', null, 200],
  'workspaces.list': ['workspaces:manage', null, 200],
  'workspaces.create': ['workspaces:manage', null, 400],
  'workspaces.members.code': ['workspaces:manage', null, 200],
  'workspaces.find': ['workspaces:manage', 'view', 200],
  'workspaces.leave': ['workspaces:manage', 'view', 200],
  'workspaces.delete': ['workspaces:manage', 'owner', 200],
  'workspaces.members.add': ['workspaces:manage', 'owner', 200],
  'workspaces.members.change': ['workspaces:manage', 'owner', 200],
  'workspaces.members.remove': ['workspaces:manage', 'owner', 200],
  'workspaces.apps.share': ['workspaces:manage', 'owner', 200],
  'workspaces.apps.unshare': ['workspaces:manage', 'owner', 200],
  'git.webhook': ['public', null, 400],
  'git.app': ['public', null, 404],
  'git.connect': ['public', null, 403],
  'git.connect.begin': ['session', null, 403],
  'git.connect.callback': ['public', null, 403],
  'git.connect.confirm': ['session', null, 400],
  'ai.chat': ['ai:chat', null, 400],
  'ai.models': ['ai:chat', null, 200],
  'ai.model': ['ai:chat', null, 404],
  'ai.usage': ['ai:chat', null, 200],
  'service.status': ['public', null, 200],
}

const ofApps = endpoints.filter(({ path }) => path.includes('{appId}'))
const ofWorkspaces = endpoints.filter(({ name }) => name.startsWith('workspaces.') && table[name]?.[1])

test('the table knows every operation of the document with its scope, every session route, and nothing else', async t => {
  const document = (await api().as(undefined).get('/v2/openapi.json')).body
  const listed = Object.values(document.paths).flatMap(methods => Object.values(methods as object))
  const known = Object.entries(table).map(([name, [who]]) => [name, who])
  t.deepEqual(
    Object.fromEntries(listed.map(operation => [operation.operationId, operation['x-scope']])),
    Object.fromEntries(known.filter(([, who]) => who !== 'session' && who !== 'public')),
  )
  const others = endpoints.filter(({ auth }) => typeof auth === 'string').map(({ name, auth }) => [name, auth])
  t.deepEqual(
    Object.fromEntries(others),
    Object.fromEntries(known.filter(([, who]) => who === 'session' || who === 'public')),
  )
})

test('the table of roles agrees with the permissions', t => {
  for (const { name, auth } of ofApps)
    t.is(table[name]?.[1], permissions[(auth as { permission: Permission }).permission], name)
})

test('a key that hands out a role covers what the role may do with its own scopes', t => {
  for (const { name, auth } of ofApps) {
    const { scope, permission } = auth as { scope: Scope; permission: Permission }
    t.true((permissionScopes[permission] as readonly Scope[]).includes(scope), name)
  }
})

type Verdict = 'pass' | readonly [status: number, code: string]
const unknown = [401, 'ACCESS_DENIED'] as const
const noApp = [404, 'APP_NOT_FOUND'] as const
const noDatabase = [404, 'DATABASE_NOT_FOUND'] as const
const limited = [403, 'RESOURCE_NOT_ALLOWED'] as const
const ungrantable = [403, 'SCOPE_NOT_GRANTABLE'] as const

/** Keys that are limited to resources, and upload tokens, reach no model. */
const ofModels: Record<string, Verdict> = {
  'key with this resource only': limited,
  'key with another resource only': limited,
  'upload token': [403, 'MISSING_SCOPE'],
}

/** Where an operation that names no application in its path says otherwise to a key that is limited. */
const otherwise: Record<string, Record<string, Verdict>> = {
  'ai.chat': ofModels,
  'ai.models': ofModels,
  'ai.model': ofModels,
  'ai.usage': ofModels,
  'apps.create': { 'key with this resource only': limited, 'key with another resource only': limited },
  'apps.status.all': { 'key with another resource only': noApp },
  'databases.create': { 'key with this resource only': limited, 'key with another resource only': limited },
  'workspaces.members.add': { 'key with the scope': ungrantable },
  'workspaces.members.change': { 'key with the scope': ungrantable },
  'workspaces.apps.share': { 'key with another resource only': limited },
  'workspaces.apps.unshare': { 'key with another resource only': limited },
}

/** What a path names: an application or a database. */
interface Named {
  id: string
}

const forms = {
  own: (own: Named) => own.id,
  'own, shared form': (own: Named) => `${own.id}-${'a'.repeat(40)}`,
  foreign: (_: Named, foreign: Named) => foreign.id,
  random: (own: Named) => 'f'.repeat(own.id.length),
  malformed: () => 'nonsense',
}

// One after the other: all at once they would only wait for each other's connections.
for (const endpoint of endpoints)
  test.serial(`only permitted callers may call ${endpoint.name}`, async t => {
    const [who, , granted] = table[endpoint.name]!
    const [ana, bob] = [await api().makeUser(), await api().makeUser()]
    const { kind, table: rows, make } = resourceOf(endpoint)
    const [foreign, spare] = [await make(bob), await make(ana)]
    const actors = Object.entries(await actorsFor(ana, bob, who, spare, kind === 'database' ? noDatabase : noApp))
    t.is(actors.length, 14)
    for (const [actor, { credential, verdict }] of actors)
      for (const [form, idOf] of Object.entries(kind ? forms : { '': () => '' })) {
        const right = otherwise[endpoint.name]?.[actor] ?? verdict(form)
        const own = right === 'pass' && form === 'own' ? await make(ana) : spare
        const asked = await subjectOf(endpoint, ana, own, kind ? idOf(own, foreign) : own.id)
        const answer = await ask(await credential(own), endpoint, asked)
        const cell = `${actor}, ${form}: ${answer.text.slice(0, 80)}`
        if (right === 'pass') t.is(answer.status, granted, cell)
        else t.deepEqual([answer.status, codeOf(answer)], [...right], cell)
        if (who === 'session' && actor.includes('key with')) t.regex(answer.body.message, /session token/, cell)
        if (form === 'foreign')
          t.truthy(await api().db(rows).where({ id: foreign.id }).first(), 'a stranger changed nothing')
      }
  })

/** What an endpoint is about, if its path names it; otherwise an application stands by. */
function resourceOf({ path }: Endpoint) {
  if (path.includes('{databaseId}'))
    return { kind: 'database', table: 'databases', make: (user: TestUser) => api().makeDatabase(user) } as const
  const kind = path.includes('{appId}') ? ('app' as const) : undefined
  return { kind, table: 'apps', make: (user: TestUser) => api().makeApp(user) } as const
}

interface Caller {
  /** Observed what it asks for. */
  credential(asked: Named): string | undefined | Promise<string>
  verdict(form: string): Verdict
}

async function actorsFor(
  ana: TestUser,
  bob: TestUser,
  who: Row[0],
  spare: Named,
  notThere: Verdict,
): Promise<Record<string, Caller>> {
  const open = who === 'public' ? ('pass' as const) : unknown
  const noKey = who === 'session' ? unknown : undefined
  const byForm = (form: string): Verdict => (form === '' || form === 'own' ? 'pass' : notThere)
  const refused = (verdict: Verdict) => () => verdict
  const others = scopes.filter(name => name !== who)
  const make = async (input: Parameters<ReturnType<typeof api>['makeKey']>[1]) => await api().makeKey(ana, input)
  const [revoked, expired] = [await make({}), await make({ expiresAt: new Date(0) })]
  const [scoped, unscoped] = [await make({ scopes: noKey ? [] : [who as Scope] }), await make({ scopes: others })]
  const elsewhere = await make({ resources: ['e'.repeat(24)] })
  const { token } = (await api().blobAs(bob.key).post('/v1/upload-tokens', '{}')).body.response
  const [ended, cleo] = [await api().makeUser(), await api().makeUser()]
  await revokeKey(api().db, revoked.id)
  await revokeSession(api().db, ended.sessionId)
  await setBlocked(api().db, cleo.id, true)
  const limitedTo = (mine: boolean) => (form: string) => {
    if (noKey || who === 'public') return noKey ?? 'pass'
    if (form === '' || form === 'malformed') return byForm(form)
    return mine && form.startsWith('own') ? byForm(form) : limited
  }
  return {
    'full key with everything': { credential: () => ana.key, verdict: form => noKey ?? byForm(form) },
    session: { credential: () => ana.session, verdict: form => byForm(form) },
    'key with the scope': { credential: () => scoped.key, verdict: form => noKey ?? byForm(form) },
    'key with every other scope': {
      credential: () => unscoped.key,
      verdict: refused(who === 'public' ? 'pass' : (noKey ?? [403, 'MISSING_SCOPE'])),
    },
    'key with this resource only': {
      credential: async asked => (await make({ resources: [asked.id, spare.id] })).key,
      verdict: limitedTo(true),
    },
    'key with another resource only': { credential: () => elsewhere.key, verdict: limitedTo(false) },
    'revoked key': { credential: () => revoked.key, verdict: refused(open) },
    'expired key': { credential: () => expired.key, verdict: refused(open) },
    'ended session': { credential: () => ended.session, verdict: refused(open) },
    'key of a blocked account': { credential: () => cleo.key, verdict: refused(open) },
    'session of a blocked account': { credential: () => cleo.session, verdict: refused(open) },
    'upload token': {
      credential: () => token,
      verdict: refused(who === 'public' ? 'pass' : [403, 'UPLOAD_TOKEN_NOT_ALLOWED']),
    },
    nobody: { credential: () => undefined, verdict: refused(open) },
    'half a key': { credential: () => bob.key.slice(0, 65), verdict: refused(open) },
  }
}

interface Subject {
  appId: string
  workspaceId: string
  memberId: string
}

/** The bodies of operations on workspaces; all others are requested without one. */
const bodies: Record<string, (subject: Subject) => object | Promise<object>> = {
  'workspaces.delete': ({ workspaceId }) => ({ workspaceId }),
  'workspaces.leave': ({ workspaceId }) => ({ workspaceId }),
  'workspaces.members.add': async ({ workspaceId }) => {
    const code = await issueInvite(api().db, (await api().makeUser()).id)
    return { workspaceId, code, group: 'view' }
  },
  'workspaces.members.change': ({ workspaceId, memberId }) => ({ workspaceId, memberId, group: 'view' }),
  'workspaces.members.remove': ({ workspaceId, memberId }) => ({ workspaceId, memberId }),
  'workspaces.apps.share': ({ workspaceId, appId }) => ({ workspaceId, appId }),
  'workspaces.apps.unshare': ({ workspaceId, appId }) => ({ workspaceId, appId }),
}

async function ask(credential: string | undefined, endpoint: Endpoint, subject: Subject): Promise<Answer> {
  const { method, name } = endpoint
  const { appId: resourceId, workspaceId } = subject
  const path = endpoint.path.replace(/\{(app|database)Id\}/, resourceId).replace('{workspaceId}', workspaceId)
  const body = await bodies[name]?.(subject)
  return api()
    .as(credential)
    .request(method, path, body && { body: JSON.stringify(body) })
}

/** What is asked for in the name of an account: of workspaces it owns a new one, or is the member where owners are not let in. */
async function subjectOf(endpoint: Endpoint, user: TestUser, app: Named, appId: string): Promise<Subject> {
  if (!ofWorkspaces.includes(endpoint)) return { appId, workspaceId: '', memberId: '' }
  const member = await api().makeUser()
  const leaves = endpoint.name === 'workspaces.leave'
  const owner = leaves ? await api().makeUser() : user
  const { id } = await makeWorkspace(api().db, owner, { members: [[member, 'admin'], ...joining(leaves, user)] })
  if (endpoint.name === 'workspaces.apps.unshare')
    await api().db('workspace_apps').insert({ workspace_id: id, app_id: app.id })
  return { appId, workspaceId: id, memberId: member.id }
}

const joining = (joins: boolean, user: TestUser) => (joins ? ([[user, 'view']] as const) : [])

/** An answer as it came, without what differs each time. */
function bytes({ status, text, headers }: Answer): unknown {
  const shown = [...headers].filter(([name]) => name !== 'x-request-id' && name !== 'date')
  return [status, text, shown]
}

/** The owner of a workspace, a member in each role, and two who are none. */
async function people(owner: TestUser): Promise<Record<string, TestUser>> {
  const all: Record<string, TestUser> = { owner }
  for (const role of [...memberRoles, 'ex-member', 'stranger']) all[role] = await api().makeUser()
  return all
}

async function workspaceOf(all: Record<string, TestUser>): Promise<string> {
  const members = memberRoles.map(role => [all[role]!, role] as const)
  const { id } = await makeWorkspace(api().db, all.owner!, { members: [...members, [all['ex-member']!, 'admin']] })
  await leaveWorkspace(api().db, all['ex-member']!.id, id)
  return id
}

const nothing = { appId: 'f'.repeat(24), workspaceId: 'b'.repeat(40), memberId: '' }
const rankOf = (who: string): number => (roles as readonly string[]).indexOf(who)

for (const endpoint of ofApps)
  test.serial(`each role of a workspace may do only what it is granted: ${endpoint.name}`, async t => {
    const [, least, granted] = table[endpoint.name]!
    const all = await people(await api().makeUser())
    const workspaceId = await workspaceOf(all)
    for (const [who, { key }] of Object.entries(all))
      for (const form of ['plain', 'shared']) {
        const { id } = await api().makeApp(all.owner!)
        await api().db('workspace_apps').insert({ workspace_id: workspaceId, app_id: id })
        const answer = await ask(key, endpoint, { ...nothing, appId: form === 'plain' ? id : `${id}-${workspaceId}` })
        const cell = `${who}, ${form}: ${answer.text.slice(0, 80)}`
        if (rankOf(who) < 0) {
          t.deepEqual([answer.status, answer.body.code], [404, 'APP_NOT_FOUND'], cell)
          t.deepEqual(bytes(answer), bytes(await ask(key, endpoint, nothing)), cell)
        } else if (rankOf(who) < rankOf(least!))
          t.deepEqual([answer.status, answer.body.code], [403, 'PERMISSION_DENIED'], cell)
        else t.is(answer.status, granted, cell)
      }
  })

for (const endpoint of ofWorkspaces)
  test.serial(`each role of a workspace may do only what it is granted: ${endpoint.name}`, async t => {
    const [, least, granted] = table[endpoint.name]!
    const all = await people(await api().makeUser())
    for (const [who, { key }] of Object.entries(all)) {
      const { id: appId } = await api().makeApp(all.owner!)
      const workspaceId = await workspaceOf(all)
      if (endpoint.name === 'workspaces.apps.unshare')
        await api().db('workspace_apps').insert({ workspace_id: workspaceId, app_id: appId })
      const memberId = all.manager!.id
      const answer = await ask(key, endpoint, { appId, workspaceId, memberId })
      const cell = `${who}: ${answer.text.slice(0, 80)}`
      if (rankOf(who) < 0) {
        t.deepEqual([answer.status, answer.body.code], [404, 'WORKSPACE_NOT_FOUND'], cell)
        t.deepEqual(bytes(answer), bytes(await ask(key, endpoint, { ...nothing, appId, memberId })), cell)
      } else if (rankOf(who) < rankOf(least!))
        t.deepEqual([answer.status, answer.body.code], [403, 'PERMISSION_DENIED'], cell)
      else if (endpoint.name === 'workspaces.leave' && who === 'owner')
        t.deepEqual([answer.status, answer.body.code], [400, 'CANNOT_LEAVE_OWNER'], cell)
      else t.is(answer.status, granted, cell)
    }
  })
