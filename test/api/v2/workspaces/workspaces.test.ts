import test from 'ava'
import { type Answer, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { makeWorkspace } from '../../../kit/rows/workspaces.ts'

const api = testApi()

const send = (who: TestUser | string, method: string, path: string, body: object) =>
  api()
    .as(who)
    .request(method, `/v2/workspaces${path}`, { body: JSON.stringify(body) })

const list = async (who: TestUser) => (await api().as(who).get('/v2/workspaces')).body.response
const code = async (who: TestUser | string): Promise<string> =>
  (await api().as(who).get('/v2/workspaces/members/code')).body.response.code

const said = ({ status, body }: Answer): unknown => (status === 200 ? 200 : [status, body.code])

/** How often each answer was given. */
async function counted(answers: Promise<Answer>[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { body } of await Promise.all(answers)) {
    const name = body.code ?? 'done'
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

const many = (make: (i: number) => Promise<Answer>) => counted(Array.from({ length: 20 }, (_, i) => make(i)))

test('a workspace from creation to deletion, in the shapes of the contract', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser({ name: 'Bob' })]
  const app = await api().makeApp(ana, { memoryMb: 512, subdomain: `ws-${ana.id}` })
  t.deepEqual(await list(ana), [])
  const created = (await send(ana, 'POST', '', { name: 'The team_1' })).body
  const { id } = created.response
  t.regex(id, /^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$/)
  t.deepEqual(created, { status: 'success', response: { id, name: 'The team_1' } })

  const invite = (await api().as(bob).get('/v2/workspaces/members/code')).body
  t.regex(invite.code, /^[0-9a-f]{32}$/)
  t.deepEqual(invite, { status: 'success', code: invite.code, response: { code: invite.code } })
  const added = await send(ana, 'POST', '/members', { workspaceId: id, code: invite.code, group: 'view' })
  t.deepEqual(added.body, { status: 'success' })
  t.deepEqual((await send(ana, 'POST', '/applications', { workspaceId: id, appId: app.id })).body, {
    status: 'success',
  })

  const found = (await api().as(bob).get(`/v2/workspaces/${id}`)).body.response
  const [owner, member] = found.members
  t.regex(member.joinedAt, /^\d{4}-.*\.\d{3}Z$/)
  t.deepEqual(found, {
    id,
    name: 'The team_1',
    owner: ana.id,
    members: [
      { id: ana.id, name: 'Ana', group: 'owner', joinedAt: found.createdAt },
      { id: bob.id, name: 'Bob', group: 'view', joinedAt: member.joinedAt },
    ],
    applications: [
      {
        id: app.id,
        name: 'shop',
        desc: null,
        ram: 512,
        lang: 'javascript',
        domain: `ws-${ana.id}.apps.localhost`,
        custom: null,
      },
    ],
    createdAt: owner.joinedAt,
  })
  t.deepEqual([await list(ana), await list(bob)], [[found], [found]])

  const change = { workspaceId: id, memberId: bob.id, group: 'admin' }
  t.deepEqual((await send(ana, 'PATCH', '/members', change)).body, { status: 'success' })
  t.is((await list(ana))[0].members[1].group, 'admin')
  t.is(said(await send(ana, 'DELETE', '/applications', { workspaceId: id, appId: app.id })), 200)
  t.is(said(await send(bob, 'DELETE', '/leave', { workspaceId: id })), 200)
  t.deepEqual([(await list(bob)).length, (await list(ana))[0].members.length], [0, 1])
  t.is(said(await send(ana, 'DELETE', '', { workspaceId: id })), 200)
  t.deepEqual(await list(ana), [])
  t.is((await api().as(ana).get(`/v2/apps/${app.id}`)).status, 200)
})

test('every invalid form has its own code', async t => {
  const ana = await api().makeUser()
  const bob = await api().makeUser()
  const app = await api().makeApp(ana)
  const { id } = await makeWorkspace(api().db, ana, { members: [[bob, 'view']] })
  const good = { workspaceId: id, code: 'a'.repeat(32), group: 'view', memberId: bob.id, appId: app.id }
  const cases: [method: string, path: string, changed: object, code: string][] = [
    ['POST', '', { name: '' }, 'INVALID_NAME'],
    ['POST', '', { name: 'x'.repeat(33) }, 'INVALID_NAME'],
    ['POST', '', { name: ' ' }, 'INVALID_NAME'],
    ['POST', '', { name: 'café' }, 'INVALID_NAME'],
    ['POST', '', { name: 'team\n' }, 'INVALID_NAME'],
    ['POST', '', { name: 7 }, 'INVALID_NAME'],
    ['POST', '', {}, 'INVALID_NAME'],
    ...['', '/leave', '/members', '/applications'].map(
      path => ['DELETE', path, { workspaceId: 'x' }, 'INVALID_ID'] as const,
    ),
    ['POST', '/members', { workspaceId: id.replace(/^(.{12})4/, '$15') }, 'INVALID_ID'],
    ['POST', '/members', { code: 'A'.repeat(32) }, 'INVALID_CODE'],
    ['POST', '/members', { code: undefined }, 'INVALID_CODE'],
    ['POST', '/members', {}, 'INVALID_CODE'],
    ['POST', '/members', { group: 'owner' }, 'INVALID_GROUP'],
    ['PATCH', '/members', { group: 'View' }, 'INVALID_GROUP'],
    ['PATCH', '/members', { memberId: 'bob' }, 'INVALID_ID'],
    ['PATCH', '/members', { memberId: ana.id }, 'CANNOT_EDIT_OWNER'],
    ['DELETE', '/members', { memberId: ana.id }, 'CANNOT_EDIT_OWNER'],
    ['DELETE', '/leave', {}, 'CANNOT_LEAVE_OWNER'],
    ['POST', '/applications', { appId: 'x' }, 'INVALID_ID'],
    ['DELETE', '/applications', { appId: undefined }, 'INVALID_ID'],
  ].map(
    ([method, path, changed, expected]) =>
      [method, path, { ...(path === '' && method === 'POST' ? {} : good), ...(changed as object) }, expected] as never,
  )
  for (const [method, path, body, expected] of cases)
    t.deepEqual(said(await send(ana, method, path, body)), [400, expected], `${method} ${path} ${JSON.stringify(body)}`)
  const missing: [method: string, path: string, changed: object, code: string][] = [
    ['PATCH', '/members', { memberId: '1'.repeat(18) }, 'MEMBER_NOT_FOUND'],
    ['DELETE', '/members', { memberId: '1'.repeat(18) }, 'MEMBER_NOT_FOUND'],
    ['POST', '/applications', { appId: 'f'.repeat(24) }, 'APP_NOT_FOUND'],
    ['DELETE', '/applications', {}, 'APP_NOT_FOUND'],
  ]
  for (const [method, path, changed, expected] of missing)
    t.deepEqual(said(await send(ana, method, path, { ...good, ...changed })), [404, expected], `${method} ${path}`)
})

test('owner endpoints are refused to members, and for others the workspace is missing', async t => {
  const [ana, bob, eve] = [await api().makeUser(), await api().makeUser(), await api().makeUser()]
  const app = await api().makeApp(ana)
  const { id } = await makeWorkspace(api().db, ana, { members: [[bob, 'admin']], apps: [app] })
  const body = { workspaceId: id, code: 'a'.repeat(32), group: 'view', memberId: bob.id, appId: app.id }
  const rows = [
    ['DELETE', ''],
    ['POST', '/members'],
    ['PATCH', '/members'],
    ['DELETE', '/members'],
    ['POST', '/applications'],
    ['DELETE', '/applications'],
  ] as const
  for (const [method, path] of rows) {
    t.deepEqual(said(await send(bob, method, path, body)), [403, 'PERMISSION_DENIED'], `${method} ${path}`)
    const foreign = await send(eve, method, path, body)
    const missing = await send(eve, method, path, { ...body, workspaceId: 'b'.repeat(40) })
    t.deepEqual([said(foreign), foreign.text], [[404, 'WORKSPACE_NOT_FOUND'], missing.text], `${method} ${path}`)
  }
  const left = await send(eve, 'DELETE', '/leave', body)
  t.deepEqual(said(left), [404, 'WORKSPACE_NOT_FOUND'])
  for (const path of [id, 'b'.repeat(40), 'nonsense', '%00', 'x'.repeat(5000)]) {
    const answer = await api().as(eve).get(`/v2/workspaces/${path}`)
    t.deepEqual([answer.status, answer.text], [404, left.text], path.slice(0, 50))
  }
  t.is((await list(ana))[0].members.length, 2)
})

test('a plan limits workspaces, even for twenty concurrent requests; a plan without any says so', async t => {
  const hobby = await api().makeUser({ plan: 'hobby-2' })
  const ended = await api().makeUser({ plan: 'pro-12', planEndsAt: new Date(0) })
  for (const user of [hobby, ended])
    t.deepEqual(said(await send(user, 'POST', '', { name: 'team' })), [403, 'UPGRADE_REQUIRED'])
  const ana = await api().makeUser({ plan: 'standard-4' })
  t.deepEqual(await many(i => send(ana, 'POST', '', { name: `team ${i}` })), { done: 3, WORKSPACE_LIMIT_REACHED: 17 })
  t.is((await list(ana)).length, 3)
})

test('an invite code adds one account to one workspace, once, within its time', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const { id: workspaceId } = await makeWorkspace(api().db, ana)
  const add = (code: string, workspace = workspaceId) =>
    send(ana, 'POST', '/members', { workspaceId: workspace, code, group: 'maintain' })

  t.deepEqual(said(await add('0'.repeat(32))), [400, 'INVALID_CODE'])
  const first = await code(bob)
  t.falsy(
    await api()
      .db('workspace_invites')
      .whereRaw(`encode(hash, 'escape') like ?`, [`%${first}%`])
      .first(),
  )
  const second = await code(bob)
  t.deepEqual(said(await add(first)), [400, 'INVALID_CODE'], 'replaced by a newer one')
  await api().db('workspace_invites').where({ user_id: bob.id }).update({ expires_at: api().db.fn.now() })
  t.deepEqual(said(await add(second)), [400, 'INVALID_CODE'], 'too old')

  const own = await code(ana)
  t.deepEqual(said(await add(own)), [400, 'CANNOT_INVITE_OWNER'])
  const workspaces: { id: string }[] = []
  for (let i = 0; i < 20; i++) workspaces.push(await makeWorkspace(api().db, ana))
  const once = await code(bob)
  t.deepEqual(await many(i => add(once, workspaces[i]!.id)), { done: 1, INVALID_CODE: 19 })
  t.is((await list(bob)).length, 1)
  const again = await code(bob)
  const [joined] = await list(bob)
  t.deepEqual(said(await add(again, joined.id)), [400, 'MEMBER_ALREADY_ADDED'])
  t.is(said(await add(again)), 200, 'a refusal did not spend the code')
})

test('a workspace has at most the members of the plan, its owner included', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  const { id: workspaceId } = await makeWorkspace(api().db, ana)
  const codes: string[] = []
  for (let i = 0; i < 20; i++) codes.push(await code(await api().makeUser()))
  const tried = await many(i => send(ana, 'POST', '/members', { workspaceId, code: codes[i], group: 'view' }))
  t.deepEqual(tried, { done: 9, MEMBERS_LIMIT_REACHED: 11 })
  t.is((await list(ana))[0].members.length, 10)
})

test('a member who is added during a step to a lower plan counts against the lower one', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  const people: [TestUser, 'view'][] = []
  for (let i = 0; i < 9; i++) people.push([await api().makeUser(), 'view'])
  const { id: workspaceId } = await makeWorkspace(api().db, ana, { members: people })
  const invite = await code(await api().makeUser())
  const waits = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  const added = await api().db.transaction(async trx => {
    await trx('workspaces').where({ id: workspaceId }).forUpdate().first()
    const adding = send(ana, 'POST', '/members', { workspaceId, code: invite, group: 'view' })
    await comesTrue(async () => (await api().db.raw(waits)).rows.length > 0)
    await trx('users').where({ id: ana.id }).update({ plan: 'standard-4' })
    return [adding] // a promise by itself would be waited for, and it waits for us
  })
  t.deepEqual(said(await added[0]!), [400, 'MEMBERS_LIMIT_REACHED'])
})

test('a workspace has at most 100 applications, even for twenty concurrent requests', async t => {
  const ana = await api().makeUser()
  const { id: workspaceId } = await makeWorkspace(api().db, ana)
  const ids: string[] = []
  for (let i = 0; i < 115; i++) ids.push((await api().makeApp(ana)).id)
  await api()
    .db('workspace_apps')
    .insert(ids.slice(0, 95).map(app_id => ({ workspace_id: workspaceId, app_id })))
  const share = (appId: string) => send(ana, 'POST', '/applications', { workspaceId, appId })
  t.deepEqual(said(await share(ids[0]!)), [400, 'APP_ALREADY_IN_WORKSPACE'])
  t.deepEqual(await many(i => share(ids[95 + i]!)), { done: 5, APPLICATIONS_LIMIT_REACHED: 15 })
  t.is((await list(ana))[0].applications.length, 100)
})

test('an application is shared once, even for concurrent requests', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const { id: workspaceId } = await makeWorkspace(api().db, ana)
  const tried = await many(() => send(ana, 'POST', '/applications', { workspaceId, appId: app.id }))
  t.deepEqual(tried, { done: 1, APP_ALREADY_IN_WORKSPACE: 19 })
})

test('an account that is blocked during the creation of its workspace has none', async t => {
  const ana = await api().makeUser()
  const { db } = api()
  const waiting = db('pg_stat_activity')
    .where({ wait_event_type: 'Lock', datname: db.raw('current_database()') })
    .whereLike('query', '%from "users" where%for update%')
  const { answer } = await db.transaction(async trx => {
    await trx('users').where({ id: ana.id }).update({ blocked_at: new Date() })
    const answer = send(ana, 'POST', '', { name: 'team' })
    await comesTrue(async () => (await waiting.clone()).length > 0)
    return { answer }
  })
  t.deepEqual(said(await answer), [400, 'WORKSPACE_CREATION_FAILED'])
  t.deepEqual(await db('workspaces').where({ owner_id: ana.id }), [])
})

test('a name is stored without leading and trailing spaces', async t => {
  const ana = await api().makeUser()
  const { body } = await send(ana, 'POST', '', { name: ' The team ' })
  t.is(body.response.name, 'The team')
  t.deepEqual(
    (await list(ana)).map(({ name }: { name: string }) => name),
    ['The team'],
  )
})
