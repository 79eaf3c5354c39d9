import test from 'ava'
import { type Answer, type TestApi, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { makeWorkspace } from '../../../kit/rows/workspaces.ts'

const api = testApi()

const send = (who: TestUser | string, method: string, path: string, body: object) =>
  api()
    .as(who)
    .request(method, `/v2/workspaces${path}`, { body: JSON.stringify(body) })

const said = ({ status, body }: Answer): unknown => (status === 200 ? 200 : [status, body.code])

test('a limited key grants no role that may do more than itself, and sees only its own applications', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const [one, two] = [await api().makeApp(ana), await api().makeApp(ana)]
  const { id: workspaceId } = await makeWorkspace(api().db, ana, { apps: [one, two] })
  const keyOf = async (input: Parameters<TestApi['makeKey']>[1]) => (await api().makeKey(ana, input)).key
  const add = async (key: string, group: string) => {
    const { code } = (await api().as(bob).get('/v2/workspaces/members/code')).body
    const answer = said(await send(key, 'POST', '/members', { workspaceId, code, group }))
    await api().db('workspace_members').where({ workspace_id: workspaceId }).delete()
    return answer
  }
  const refused = [403, 'SCOPE_NOT_GRANTABLE']
  const bare = await keyOf({ scopes: ['workspaces:manage'] })
  const reader = await keyOf({ scopes: ['workspaces:manage', 'apps:read'] })
  const controller = await keyOf({ scopes: ['workspaces:manage', 'apps:read', 'apps:control'] })
  const ofOne = await keyOf({ resources: [one.id] })
  const ofBoth = await keyOf({ resources: [one.id, two.id] })
  t.deepEqual([await add(bare, 'view'), await add(reader, 'view')], [refused, 200])
  t.deepEqual([await add(reader, 'manager'), await add(controller, 'manager')], [refused, 200])
  t.deepEqual(
    [await add(controller, 'admin'), await add(ofOne, 'view'), await add(ofBoth, 'admin')],
    [refused, refused, 200],
  )
  const workspace = await makeWorkspace(api().db, ana, { members: [[bob, 'view']] })
  const change = (key: string) =>
    send(key, 'PATCH', '/members', { workspaceId: workspace.id, memberId: bob.id, group: 'manager' })
  t.deepEqual([said(await change(reader)), said(await change(controller))], [refused, 200])
  const shown = (await api().as(ofOne).get(`/v2/workspaces/${workspaceId}`)).body.response.applications
  t.deepEqual(
    shown.map(({ id }: { id: string }) => id),
    [one.id],
  )
  const unshare = (appId: string) => send(ofOne, 'DELETE', '/applications', { workspaceId, appId })
  t.deepEqual([said(await unshare(two.id)), said(await unshare(one.id))], [[403, 'RESOURCE_NOT_ALLOWED'], 200])
})

test('a member’s key that is limited to resources accesses only those of the shared applications', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const [one, two] = [await api().makeApp(ana), await api().makeApp(ana)]
  const { id } = await makeWorkspace(api().db, ana, { members: [[bob, 'view']], apps: [one, two] })
  const { key } = await api().makeKey(bob, { resources: [one.id] })
  t.is(said(await api().as(key).get(`/v2/apps/${one.id}-${id}`)), 200)
  t.deepEqual(said(await api().as(key).get(`/v2/apps/${two.id}-${id}`)), [403, 'RESOURCE_NOT_ALLOWED'])
})
