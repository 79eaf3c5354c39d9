import test from 'ava'
import { endpoints } from '../../api/app.ts'
import { revokeKey } from '../../db/accounts.ts'
import type { AppRow } from '../../db/apps.ts'
import { leaveWorkspace } from '../../db/workspace-members.ts'
import { deleteWorkspace } from '../../db/workspaces.ts'
import {
  memberRoles,
  type Permission,
  permissionScopes,
  permissions,
  type Role,
  roles,
} from '../../policy/permissions.ts'
import { type Scope, scopes } from '../../policy/scopes.ts'
import { type TestUser, testApi } from '../kit/api.ts'
import { makeWorkspace } from '../kit/workspaces.ts'

const api = testApi()

/** Every route of the table must be here, or the test fails: what the owner of an existing application is answered. */
const granted: Record<string, readonly number[]> = {
  'users.me': [200],
  'users.snapshots': [200],
  'account.apikey': [200],
  'account.audit': [200],
  'sign-in.page': [200],
  'account.sign-in.begin': [400],
  'account.sign-in.end': [400],
  'account.session.renew': [200],
  'account.session.end': [200],
  'authorize.page': [200],
  'account.authorize.start': [400],
  'account.authorize.show': [400],
  'account.authorize.decide': [400],
  'account.authorize.claim': [400],
  'account.downgrade': [200, 429],
  'account.locale': [400],
  'account.username': [400],
  'apps.create': [415],
  'apps.status.all': [200],
  'apps.info': [200],
  'apps.delete': [200],
  'apps.status': [200],
  'apps.logs': [404],
  'apps.metrics': [400],
  'apps.realtime': [503],
  'apps.start': [200],
  'apps.stop': [200],
  'apps.restart': [200],
  'apps.commit': [415],
  'apps.files': [503],
  'apps.files.content': [400],
  'apps.files.write': [400],
  'apps.files.move': [400],
  'apps.files.delete': [400],
  'apps.envs': [200],
  'apps.envs.merge': [400],
  'apps.envs.replace': [400],
  'apps.envs.remove': [400],
  'apps.webhook': [400],
  'apps.link': [400],
  'apps.unlink': [400],
  'apps.deployments': [200],
  'apps.deployments.current': [200],
  'apps.deployments.logs': [404],
  'apps.deliveries': [200],
  'apps.snapshots': [200],
  'apps.snapshots.create': [200],
  'apps.snapshots.restore': [400],
  'apps.snapshots.restore.state': [200],
  'workspaces.list': [200],
  'workspaces.find': [404],
  'workspaces.create': [400],
  'workspaces.delete': [400],
  'workspaces.leave': [400],
  'workspaces.members.code': [200],
  'workspaces.members.add': [400],
  'workspaces.members.change': [400],
  'workspaces.members.remove': [400],
  'workspaces.apps.share': [400],
  'workspaces.apps.unshare': [400],
  'git.webhook': [400],
  'git.app': [404],
  'git.connect': [403],
  'git.connect.begin': [403],
  'git.connect.callback': [403],
  'service.status': [200],
}

const ids = {
  own: (app: AppRow) => app.id,
  'own, shared form': (app: AppRow) => `${app.id}-${'a'.repeat(40)}`,
  foreign: (_: AppRow, foreign: AppRow) => foreign.id,
  random: () => 'f'.repeat(24),
  malformed: () => 'nonsense',
}

test('the table knows every endpoint', t => {
  t.deepEqual(Object.keys(granted).sort(), endpoints.map(endpoint => endpoint.name).sort())
})

for (const endpoint of endpoints)
  test(`who may call ${endpoint.name}`, async t => {
    const ana = await api().makeUser()
    const bob = await api().makeUser()
    const [foreign, spare] = [await api().makeApp(bob), await api().makeApp(ana)]
    const scope = typeof endpoint.auth === 'object' ? endpoint.auth.scope : null
    const withPath = endpoint.path.includes('{appId}')
    const actors = await actorsFor(ana, bob, endpoint.auth === 'session' ? 'session' : scope)
    for (const [actor, { credential, reaches }] of Object.entries(actors))
      for (const [form, idOf] of Object.entries(withPath ? ids : { none: () => '' })) {
        const app = form === 'own' && reaches === 'pass' ? await api().makeApp(ana) : spare
        const path = endpoint.path.replace('{appId}', idOf(app, foreign))
        const answer = await api().as(credential).request(endpoint.method, path)
        const cell = `${actor}, ${form}: ${answer.text.slice(0, 80)}`
        if (endpoint.auth === 'public') t.true(granted[endpoint.name]!.includes(answer.status), cell)
        else if (reaches !== 'pass') t.is(answer.status, reaches, cell)
        else if (!withPath || form === 'own') t.true(granted[endpoint.name]!.includes(answer.status), cell)
        else t.deepEqual([answer.status, answer.body.code], [404, 'APP_NOT_FOUND'], cell)
        if (form === 'foreign')
          t.truthy(await api().db('apps').where({ id: foreign.id }).first(), 'a stranger changed nothing')
      }
  })

test('another account finds nothing of mine', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const app = await api().makeApp(ana)
  for (const endpoint of endpoints.filter(e => e.path.includes('{appId}'))) {
    const answer = await api().as(bob).request(endpoint.method, endpoint.path.replace('{appId}', app.id))
    t.deepEqual([answer.status, answer.body.code], [404, 'APP_NOT_FOUND'], endpoint.name)
  }
  t.is((await api().as(bob).get('/v2/users/me')).body.response.applications.length, 0)
  t.is(await api().db('operations').where({ target_id: app.id }).whereNot({ kind: 'create' }).first(), undefined)
})

/** The least role that gets through, by operation (contract 2, 4 and 6); whoever has less is told so. */
const least: Record<string, Role> = {
  'apps.info': 'view',
  'apps.status': 'view',
  'apps.logs': 'view',
  'apps.metrics': 'view',
  'apps.realtime': 'view',
  'apps.deployments': 'view',
  'apps.deployments.logs': 'view',
  'apps.deliveries': 'view',
  'apps.start': 'manager',
  'apps.stop': 'manager',
  'apps.restart': 'manager',
  'apps.deployments.current': 'manager',
  'apps.commit': 'maintain',
  'apps.files': 'maintain',
  'apps.files.content': 'maintain',
  'apps.files.write': 'maintain',
  'apps.files.move': 'maintain',
  'apps.files.delete': 'maintain',
  'apps.envs': 'admin',
  'apps.envs.merge': 'admin',
  'apps.envs.replace': 'admin',
  'apps.envs.remove': 'admin',
  'apps.webhook': 'admin',
  'apps.link': 'admin',
  'apps.unlink': 'admin',
  'apps.snapshots': 'admin',
  'apps.snapshots.create': 'admin',
  'apps.snapshots.restore': 'admin',
  'apps.snapshots.restore.state': 'admin',
  'apps.delete': 'owner',
}

const ofApps = endpoints.filter(({ path }) => path.includes('{appId}'))

test('the table of roles knows every operation of an application, and agrees with the permissions', t => {
  const asked = ofApps.map(({ name, auth }) => [name, permissions[(auth as { permission: Permission }).permission]])
  t.deepEqual(Object.fromEntries(asked), least)
})

test('a key that hands out a role covers what the role may do with its own scopes', t => {
  for (const { name, auth } of ofApps) {
    const { scope, permission } = auth as { scope: Scope; permission: Permission }
    t.true((permissionScopes[permission] as readonly Scope[]).includes(scope), name)
  }
})

test('what each role of a workspace may do', async t => {
  const owner = await api().makeUser()
  const people: Record<string, TestUser> = { owner }
  for (const role of [...memberRoles, 'ex-member', 'stranger']) people[role] = await api().makeUser()
  const members = memberRoles.map(role => [people[role]!, role] as const)
  for (const endpoint of ofApps) {
    const workspace = await makeWorkspace(api().db, owner, { members: [...members, [people['ex-member']!, 'admin']] })
    await leaveWorkspace(api().db, people['ex-member']!.id, workspace.id)
    for (const [who, person] of Object.entries(people))
      for (const form of ['plain', 'shared']) {
        const app = await api().makeApp(owner)
        await api().db('workspace_apps').insert({ workspace_id: workspace.id, app_id: app.id })
        const path = endpoint.path.replace('{appId}', form === 'plain' ? app.id : `${app.id}-${workspace.id}`)
        const { status, body, text } = await api().as(person).request(endpoint.method, path)
        const cell = `${endpoint.name} by ${who}, ${form}: ${text.slice(0, 80)}`
        const rank = roles.indexOf(who as Role)
        if (rank < 0) t.deepEqual([status, body.code], [404, 'APP_NOT_FOUND'], cell)
        else if (rank < roles.indexOf(least[endpoint.name]!))
          t.deepEqual([status, body.code], [403, 'PERMISSION_DENIED'], cell)
        else t.true(granted[endpoint.name]!.includes(status), cell)
      }
    await deleteWorkspace(api().db, owner.id, workspace.id)
  }
})

interface Cell {
  credential: string | undefined
  /** The status of every cell, or that the id decides. */
  reaches: number | 'pass'
}

/** `scope`: null = a key with full access is needed, 'session' = no key does. */
async function actorsFor(ana: TestUser, bob: TestUser, scope: string | null): Promise<Record<string, Cell>> {
  const noKey = scope === 'session' ? 401 : undefined
  const others = scopes.filter(name => name !== scope)
  const revoked = await api().makeKey(ana, {})
  await revokeKey(api().db, revoked.id)
  const expired = await api().makeKey(ana, { expiresAt: new Date(0) })
  const scoped = await api().makeKey(ana, { scopes: scope === null || noKey ? [] : [scope as never] })
  const unscoped = await api().makeKey(ana, { scopes: others })
  return {
    'full key': { credential: ana.key, reaches: noKey ?? 'pass' },
    session: { credential: ana.session, reaches: 'pass' },
    'key with the scope': { credential: scoped.key, reaches: noKey ?? (scope === null ? 403 : 'pass') },
    'key with every other scope': { credential: unscoped.key, reaches: noKey ?? 403 },
    'revoked key': { credential: revoked.key, reaches: 401 },
    'expired key': { credential: expired.key, reaches: 401 },
    nobody: { credential: undefined, reaches: 401 },
    'half a key': { credential: bob.key.slice(0, 65), reaches: 401 },
  }
}
