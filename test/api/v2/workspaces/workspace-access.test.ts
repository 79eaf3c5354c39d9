import test from 'ava'
import { accessApp } from '../../../../api/pipeline/access.ts'
import type { Caller } from '../../../../api/pipeline/authenticate.ts'
import { type Db, openDatabase } from '../../../../db/database.ts'
import { type Answer, openApiFor, type TestApi, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { EventReader } from '../../../kit/actors/event-stream.ts'
import { ScriptedLive } from '../../../kit/fakes/scripted-live.ts'
import { makeWorkspace } from '../../../kit/rows/workspaces.ts'

const api = testApi()
const undo: (() => Promise<unknown>)[] = []
let opened: Promise<TestApi> | undefined

const databaseUrl = (): string => api().db.client.config.connection.connectionString

/** One more API process on the same database. */
function second(): Promise<TestApi> {
  opened ??= openApiFor({ db: api().db, url: databaseUrl() }, {}, undo)
  return opened
}
test.after.always('end the second process', async () => {
  for (const step of undo.reverse()) await step()
})

const send = (who: TestUser | string, method: string, path: string, body: object) =>
  api()
    .as(who)
    .request(method, `/v2/workspaces${path}`, { body: JSON.stringify(body) })

const said = ({ status, body }: Answer): unknown => (status === 200 ? 200 : [status, body.code])
const notThere = [404, 'APP_NOT_FOUND']

/** A line to the database that tells what is asked over it. */
async function questioned(): Promise<{ db: Db; asked: string[] }> {
  const db = openDatabase({ url: databaseUrl(), pool: 1 })
  undo.push(() => db.destroy())
  const asked: string[] = []
  const connection = await db.client.acquireConnection()
  const query = connection.query.bind(connection)
  connection.query = (question: { name?: string; text: string }, ...rest: unknown[]) => {
    asked.push(question.name ?? question.text)
    return query(question, ...rest)
  }
  db.client.releaseConnection(connection)
  return { db, asked }
}

/** What both processes answer to a user who requests an application. */
async function seen(who: TestUser, id: string, path = ''): Promise<unknown> {
  const here = said(await api().as(who).get(`/v2/apps/${id}${path}`))
  const there = said(await (await second()).as(who).get(`/v2/apps/${id}${path}`))
  return JSON.stringify(here) === JSON.stringify(there) ? here : [here, there]
}

test('an application is accessible by its id and through each workspace; the best role counts if none is named', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const app = await api().makeApp(ana)
  const { db } = api()
  const low = await makeWorkspace(db, ana, { members: [[bob, 'view']], apps: [app] })
  const high = await makeWorkspace(db, ana, { members: [[bob, 'admin']], apps: [app] })
  const without = await makeWorkspace(db, ana, { members: [[bob, 'admin']] })
  for (const who of [ana, bob]) {
    t.is(await seen(who, app.id), 200)
    t.is(await seen(who, `${app.id}-${low.id}`), 200)
    for (const id of [without.id, 'b'.repeat(40), 'x', `${low.id}0`, '-'])
      t.deepEqual(await seen(who, `${app.id}-${id}`), notThere, id)
  }
  t.deepEqual(await seen(bob, `${app.id}-${low.id}`, '/envs'), [403, 'PERMISSION_DENIED'])
  t.is(await seen(bob, `${app.id}-${high.id}`, '/envs'), 200)
  t.is(await seen(bob, app.id, '/envs'), 200)
  t.is(await seen(ana, `${app.id}-${low.id}`, '/envs'), 200)
  const { response } = (await api().as(bob).get(`/v2/apps/${app.id}`)).body
  t.deepEqual([response.id, response.owner], [app.id, ana.id])
  t.deepEqual((await api().as(bob).get('/v2/users/me')).body.response.applications, [])
})

test('a removed right is refused from the next request on, in every process', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const app = await api().makeApp(ana)
  const member = { memberId: bob.id }
  const joined = async () => (await makeWorkspace(api().db, ana, { members: [[bob, 'admin']], apps: [app] })).id
  const ways: Record<string, (workspaceId: string) => Promise<Answer>> = {
    removed: workspaceId => send(ana, 'DELETE', '/members', { workspaceId, ...member }),
    left: workspaceId => send(bob, 'DELETE', '/leave', { workspaceId }),
    unshared: workspaceId => send(ana, 'DELETE', '/applications', { workspaceId, appId: app.id }),
    deleted: workspaceId => send(ana, 'DELETE', '', { workspaceId }),
  }
  for (const [way, take] of Object.entries(ways)) {
    const id = await joined()
    t.deepEqual([await seen(bob, app.id), await seen(bob, `${app.id}-${id}`)], [200, 200], way)
    t.is(said(await take(id)), 200, way)
    t.deepEqual([await seen(bob, app.id), await seen(bob, `${app.id}-${id}`)], [notThere, notThere], way)
    t.is(await seen(ana, app.id), 200, way)
  }
  const id = await joined()
  t.is(await seen(bob, app.id, '/envs'), 200)
  t.is(said(await send(ana, 'PATCH', '/members', { workspaceId: id, ...member, group: 'maintain' })), 200)
  t.deepEqual(await seen(bob, app.id, '/envs'), [403, 'PERMISSION_DENIED'])
  t.is((await api().as(ana).delete(`/v2/apps/${app.id}`)).status, 200)
  t.deepEqual(await seen(bob, `${app.id}-${id}`), notThere)
  t.deepEqual((await api().as(bob).get(`/v2/workspaces/${id}`)).body.response.applications, [])
})

test('open streams end when the right to them is removed, in every process', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const app = await api().makeApp(ana, { memoryMb: 512 })
  const pair = [api(), await second()]
  for (const { hosts } of pair) hosts.streams.set(app.id, new ScriptedLive())
  const workspace = await makeWorkspace(api().db, ana, { members: [[bob, 'view']], apps: [app] })
  const readers = pair.map(({ url }) => new EventReader(`${url}/v2/apps/${app.id}-${workspace.id}/realtime`, bob.key))
  const owner = new EventReader(`${api().url}/v2/apps/${app.id}/realtime`, ana.key)
  for (const reader of [...readers, owner]) await reader.until(({ frames }) => frames.length >= 3)
  await send(ana, 'DELETE', '/members', { workspaceId: workspace.id, memberId: bob.id })
  for (const reader of readers) await reader.ended
  t.false(owner.over)
  owner.leave()
})

test('a non-member gets the same bytes as for a missing application, after the same queries', async t => {
  const [ana, bob, eve] = [await api().makeUser(), await api().makeUser(), await api().makeUser()]
  const app = await api().makeApp(ana)
  const { id: workspace } = await makeWorkspace(api().db, ana, { members: [[bob, 'admin']], apps: [app] })
  const nothing = 'f'.repeat(24)
  const forms = [app.id, nothing, `${app.id}-${workspace}`, `${nothing}-${workspace}`, `${app.id}-${'b'.repeat(40)}`]
  const ask = async (id: string) => {
    const { status, text, headers } = await api().as(eve).get(`/v2/apps/${id}`)
    return [status, text, [...headers.keys()].sort()]
  }
  const missing = await ask(nothing)
  t.is(missing[0], 404)
  for (const id of forms) t.deepEqual(await ask(id), missing, id)

  const { db, asked } = await questioned()
  const questions = async (id: string) => {
    asked.length = 0
    const caller = { user: { id: eve.id }, scopes: null, resources: null } as Caller
    await t.throwsAsync(accessApp(db, caller, id, 'read'), { message: 'The application does not exist.' })
    return [...asked]
  }
  const all: string[][] = []
  for (const id of forms) all.push(await questions(id))
  const [foreign, none, ...shared] = all
  t.is(foreign!.length, 3)
  t.deepEqual(foreign, none)
  for (const one of shared) t.deepEqual(one, shared[0])
})

test('only the owner of an application may share it', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const [app, foreign] = [await api().makeApp(ana), await api().makeApp(ana)]
  await makeWorkspace(api().db, ana, { members: [[bob, 'admin']], apps: [app] })
  const own = await makeWorkspace(api().db, bob)
  const share = (appId: string) => send(bob, 'POST', '/applications', { workspaceId: own.id, appId })
  t.deepEqual(said(await share(app.id)), [403, 'PERMISSION_DENIED'])
  t.deepEqual(said(await share(foreign.id)), notThere)
})

test('the owner of a workspace has every change of it in the audit record, even who left', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const { id } = await makeWorkspace(api().db, ana, { members: [[bob, 'view']] })
  await send(bob, 'DELETE', '/leave', { workspaceId: id })
  await send(ana, 'DELETE', '', { workspaceId: id })
  const { entries } = (await api().as(ana).get('/v2/account/audit')).body.response
  t.deepEqual(
    entries.map((entry: { actor: string; action: string; resource: string }) => Object.values(entry).slice(1, 4)),
    [
      [ana.id, 'workspaces.delete', id],
      [bob.id, 'workspaces.leave', id],
    ],
  )
})

test('members see the status of the workspace’s applications', async t => {
  const [ana, bob, eve] = [await api().makeUser(), await api().makeUser(), await api().makeUser()]
  const [one] = [await api().makeApp(ana), await api().makeApp(ana)]
  const { id } = await makeWorkspace(api().db, ana, { members: [[bob, 'view']], apps: [one] })
  const empty = await makeWorkspace(api().db, ana)
  const status = (who: TestUser, workspaceId: string) => api().as(who).get(`/v2/apps/status?workspaceId=${workspaceId}`)
  for (const who of [ana, bob]) {
    const { applications } = (await status(who, id)).body.response
    t.deepEqual(
      applications.map((app: { id: string }) => app.id),
      [one.id],
    )
  }
  t.deepEqual(said(await status(ana, empty.id)), notThere)
  const unknown = [404, 'UNKNOWN_WORKSPACE']
  t.deepEqual([said(await status(eve, id)), said(await status(ana, 'b'.repeat(40)))], [unknown, unknown])
})

test('the address of a webhook is shown to admin and owner only', async t => {
  const [ana, bob, cleo] = [await api().makeUser(), await api().makeUser(), await api().makeUser()]
  const app = await api().makeApp(ana)
  await makeWorkspace(api().db, ana, {
    apps: [app],
    members: [
      [bob, 'maintain'],
      [cleo, 'admin'],
    ],
  })
  const body = JSON.stringify({ access_token: 'token' })
  t.is((await api().as(cleo).post(`/v2/apps/${app.id}/deploy/webhook`, body)).status, 200)
  const shown = async (who: TestUser) =>
    'webhook' in (await api().as(who).get(`/v2/apps/${app.id}/deployments/current`)).body.response
  t.deepEqual([await shown(ana), await shown(cleo), await shown(bob)], [true, true, false])
})
