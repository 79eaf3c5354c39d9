import { once } from 'node:events'
import { request } from 'node:http'
import test from 'ava'
import { changeMembers } from '../../../../api/v2/workspaces/workspace-changes.ts'
import { setBlocked } from '../../../../db/accounts/accounts.ts'
import { type Db, transaction } from '../../../../db/database.ts'
import { blockDeployer, lockDeployers, withdrawDeploys } from '../../../../db/git/deploy-rights.ts'
import { bindInstallations } from '../../../../db/git/git-links.ts'
import type { MemberRole } from '../../../../policy/accounts/permissions.ts'
import type { Answer, TestUser } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { link, testProviderApi } from '../../../kit/git/connected.ts'
import { cloneUrl, deliver, newCommit } from '../../../kit/git/deliveries.ts'
import { appEvent, appPush } from '../../../kit/git/git-app-events.ts'
import { pushEvent } from '../../../kit/git/git-events.ts'
import { makeWorkspace } from '../../../kit/rows/workspaces.ts'

const { api, provider } = await testProviderApi()

const send = (who: TestUser, method: string, path: string, body: object) =>
  api()
    .as(who)
    .request(method, `/v2/workspaces${path}`, { body: JSON.stringify(body) })

/** Ana's application, which Bob has linked to a repository of his own, and whose webhook he has seen. */
async function shared(secret?: string) {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const app = await api().makeApp(ana)
  const workspace = await makeWorkspace(api().db, ana, { members: [[bob, 'admin']], apps: [app] })
  const person = provider.person()
  const repository = provider.repository(`${person.login}/evil`, { permissions: { [person.login]: 'write' } })
  const installation = provider.install(person.login, [repository], person)
  await bindInstallations(api().db, bob.id, person, [installation])
  const linked = await link(api(), bob, app.id, repository.fullName)
  const set = await api()
    .as(bob)
    .post(`/v2/apps/${app.id}/deploy/webhook`, JSON.stringify({ access_token: 'a-token', secret }))
  if (linked.status !== 200 || set.status !== 200) throw new Error(linked.text + set.text)
  const pushEvent = appPush(provider, repository, { installationId: installation.id, commit: newCommit() })
  const pushed = appEvent(provider, 'push', pushEvent)
  return {
    ana,
    bob,
    app,
    repository,
    workspaceId: workspace.id,
    hook: new URL(set.body.response.webhook).pathname,
    push: async () => (await api().as(undefined).post('/v2/git/app', pushed.body, pushed.headers)).text,
    current: async () => (await api().as(ana).get(`/v2/apps/${app.id}/deployments/current`)).body.response,
    mails: () => api().db('mails').where({ user_id: ana.id, template: 'deploys-withdrawn' }),
  }
}

const ignored = /^ignored: no application is linked/

type Shared = Awaited<ReturnType<typeof shared>>
const ways: Record<string, (made: Shared) => Promise<{ status: number }>> = {
  'is removed': ({ ana, bob, workspaceId }) => send(ana, 'DELETE', '/members', { workspaceId, memberId: bob.id }),
  'is demoted': ({ ana, bob, workspaceId }) =>
    send(ana, 'PATCH', '/members', { workspaceId, memberId: bob.id, group: 'maintain' }),
  leaves: ({ bob, workspaceId }) => send(bob, 'DELETE', '/leave', { workspaceId }),
  'shares the application no longer': ({ ana, app, workspaceId }) =>
    send(ana, 'DELETE', '/applications', { workspaceId, appId: app.id }),
  'has no workspace any more': ({ ana, workspaceId }) => send(ana, 'DELETE', '', { workspaceId }),
  'is blocked': async ({ bob }) => {
    await transaction(api().db, trx => blockDeployer(trx, api().services.config, 'operator:root', bob.id))
    return { status: 200 }
  },
}

/** Bob has the rights again that he has lost in one of these ways. */
async function giveBack({ bob, workspaceId }: Shared): Promise<void> {
  const { db } = api()
  const member = { workspace_id: workspaceId, user_id: bob.id, role: 'admin' }
  await db('workspace_members').insert(member).onConflict(['workspace_id', 'user_id']).merge()
  await setBlocked(db, bob.id, false)
}

test.afterEach.always(() => {
  provider.takeOver = () => false
})

for (const [way, take] of Object.entries(ways))
  test.serial(`an admin who ${way} can deploy neither by their link nor by an address that they know`, async t => {
    const made = await shared()
    const { ana, app, hook, push, current, mails } = made
    t.is((await current()).app.branch, 'main')
    t.is((await take(made)).status, 200)
    t.regex(await push(), ignored)
    t.is((await deliver(api(), hook)).status, 404)
    t.is((await api().db('deployments').where({ app_id: app.id }).whereNot({ trigger: 'upload' })).length, 0)
    const { app: linked, webhook } = await current()
    t.is(linked, undefined)
    t.not(new URL(webhook).pathname, hook)
    t.is((await deliver(api(), new URL(webhook).pathname)).status, 200, 'the owner’s new address works')
    t.deepEqual(
      (await mails()).map(({ fields }) => fields),
      [{ apps: app.name }],
    )
    const { entries } = (await api().as(ana).get('/v2/account/audit')).body.response
    const reported = entries.filter(({ resource }: { resource: string }) => resource === app.id)
    t.true(reported.some(({ action }: { action: string }) => action === 'apps.unlink'))
    t.true(reported.filter(({ action }: { action: string }) => action === 'apps.webhook').length >= 2)
  })

for (const way of ['is removed', 'is demoted', 'is blocked'])
  test.serial(`an admin who ${way} while the git provider is asked gets no address and makes no link`, async t => {
    const made = await shared()
    const { bob, app, hook, current } = made
    t.is((await api().as(made.ana).delete(`/v2/apps/${app.id}/deploy/github-app`)).status, 200)
    const set = '{"access_token":"ghp_some","secret":"bob knows this"}'
    const commands: Record<string, () => Promise<Answer>> = {
      '/user': () => api().as(bob).post(`/v2/apps/${app.id}/deploy/webhook`, set),
      '/branches/': () => link(api(), bob, app.id, made.repository.fullName),
    }
    for (const [question, command] of Object.entries(commands)) {
      let lost = false
      provider.takeOver = (request, response) => {
        if (!request.url?.includes(question)) return false
        lost = true
        // Yes to both: the token is good, and there is the branch.
        void ways[way]!(made).then(() =>
          response.writeHead(200, { 'content-type': 'application/json' }).end('{"name":"main"}'),
        )
        return true
      }
      const answer = await command()
      t.true(lost && [401, 403, 404].includes(answer.status), answer.text)
      provider.takeOver = () => false
      await giveBack(made)
    }
    const { app: linked, webhook } = await current()
    t.is(linked, undefined)
    t.not(new URL(webhook).pathname, hook)
    t.is((await deliver(api(), new URL(webhook).pathname)).status, 200, 'it has no secret of his')
  })

test.serial('of a blocked admin each owner hears about their own applications', async t => {
  const made = await shared()
  const eve = await api().makeUser()
  const app = await api().makeApp(eve)
  await makeWorkspace(api().db, eve, { members: [[made.bob, 'admin']], apps: [app] })
  t.is((await api().as(eve).post(`/v2/apps/${app.id}/deploy/webhook`, '{"access_token":"t"}')).status, 200)
  await ways['is blocked']!(made)
  const mails = await api()
    .db('mails')
    .where({ template: 'deploys-withdrawn' })
    .whereIn('user_id', [made.ana.id, eve.id])
  t.deepEqual(Object.fromEntries(mails.map(({ user_id, fields }) => [user_id, fields.apps])), {
    [made.ana.id]: made.app.name,
    [eve.id]: app.name,
  })
  const { entries } = (await api().as(eve).get('/v2/account/audit')).body.response
  t.like(entries[0], { actor: 'operator', action: 'apps.webhook', resource: app.id })
})

test.serial('a blocked admin has lost the right once, and not again with each later change of members', async t => {
  const made = await shared()
  const { ana, app, workspaceId, current, mails } = made
  const eve = await api().makeUser()
  await api().db('workspace_members').insert({ workspace_id: workspaceId, user_id: eve.id, role: 'maintain' })
  await ways['is blocked']!(made)
  t.is((await api().as(ana).post(`/v2/apps/${app.id}/deploy/webhook`, '{"access_token":"t"}')).status, 200)
  const { webhook } = await current()
  t.is((await send(ana, 'DELETE', '/members', { workspaceId, memberId: eve.id })).status, 200)
  t.is((await current()).webhook, webhook)
  t.is((await mails()).length, 1)
})

test.serial('a push to an address that is renewed meanwhile deploys nothing', async t => {
  const made = await shared()
  const { headers, body } = pushEvent('github', {
    ...{ cloneUrl, ref: 'refs/heads/main', before: 'a'.repeat(40), after: newCommit() },
  })
  const sending = request(api().url + made.hook, {
    method: 'POST',
    headers: { ...headers, expect: '100-continue', 'content-length': Buffer.byteLength(body) },
  })
  const answered = once(sending, 'response')
  sending.flushHeaders()
  await once(sending, 'continue')
  t.is((await ways['is removed']!(made)).status, 200)
  sending.end(body)
  const [answer] = await answered
  t.is(answer.resume().statusCode, 404)
  t.is((await api().db('deployments').where({ app_id: made.app.id }).whereNot({ trigger: 'upload' })).length, 0)
})

test.serial('a secret that the member has set is replaced too, until the owner sets one', async t => {
  const made = await shared('bob knows this')
  await ways['is removed']!(made)
  const path = new URL((await made.current()).webhook).pathname
  t.is((await deliver(api(), path, { secret: 'bob knows this' })).status, 401)
  await api()
    .as(made.ana)
    .post(`/v2/apps/${made.app.id}/deploy/webhook`, '{"access_token":"t","secret":"only ana knows"}')
  t.is((await deliver(api(), path, { secret: 'only ana knows' })).status, 200)
})

test.serial('a member who keeps the right elsewhere, or never had it, loses nothing by leaving', async t => {
  const made = await shared()
  const { ana, bob, app, hook, current, mails } = made
  const eve = await api().makeUser()
  const members: [TestUser, MemberRole][] = [
    [bob, 'admin'],
    [eve, 'maintain'],
  ]
  const other = await makeWorkspace(api().db, ana, { members, apps: [app] })
  await ways['is removed']!(made)
  t.is((await send(ana, 'DELETE', '/members', { workspaceId: other.id, memberId: eve.id })).status, 200)
  t.is(new URL((await current()).webhook).pathname, hook)
  t.is((await current()).app.branch, 'main')
  t.is((await mails()).length, 0)
  t.is((await send(ana, 'DELETE', '/members', { workspaceId: other.id, memberId: bob.id })).status, 200)
  t.is((await deliver(api(), hook)).status, 404)
  t.is((await mails()).length, 1)
})

test.serial('a member who loses the right in two workspaces concurrently has lost it', async t => {
  const made = await shared()
  const { ana, bob, app, hook, current, mails } = made
  const other = await makeWorkspace(api().db, ana, { members: [[bob, 'admin']], apps: [app] })
  const { db, services } = api()
  let go = () => {}
  const mayEnd = new Promise<void>(resolve => {
    go = resolve
  })
  let removed = () => {}
  const first = new Promise<void>(resolve => {
    removed = resolve
  })
  const remove = (workspaceId: string, trx: Db) =>
    trx('workspace_members').where({ workspace_id: workspaceId, user_id: bob.id }).delete()
  // The first one is made, and not committed before the second one has ended, or waits for it.
  const slow = transaction(db, async trx => {
    const deployers = await lockDeployers(trx, made.workspaceId, ana.id)
    await remove(made.workspaceId, trx)
    await withdrawDeploys(trx, services.config, ana.id, deployers)
    removed()
    await mayEnd
  })
  await first
  let over = false
  const command = {
    action: 'workspaces.members.remove',
    caller: { user: ana } as never,
    exchange: { headers: {} } as never,
    workspaceId: other.id,
  }
  const quick = changeMembers(services, command, trx => remove(other.id, trx)).then(() => {
    over = true
  })
  await comesTrue(async () => {
    const { rows } = await db.raw(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return over || rows.length > 0
  })
  go()
  await Promise.all([slow, quick])
  t.is((await deliver(api(), hook)).status, 404)
  t.is((await current()).app, undefined)
  t.is((await mails()).length, 1)
})

test.serial('a change that is refused changes nothing', async t => {
  const made = await shared()
  const { ana, bob, workspaceId, hook, current } = made
  const eve = await api().makeUser()
  t.is((await send(eve, 'DELETE', '/members', { workspaceId, memberId: bob.id })).status, 404)
  t.is((await send(bob, 'DELETE', '/members', { workspaceId, memberId: bob.id })).status, 403)
  t.is((await send(ana, 'DELETE', '/members', { workspaceId, memberId: eve.id })).status, 404)
  t.is((await send(eve, 'DELETE', '/leave', { workspaceId })).status, 404)
  t.is(new URL((await current()).webhook).pathname, hook)
  t.is((await current()).app.branch, 'main')
})

test.serial('a link of a member who has lost the right deploys nothing', async t => {
  const removed = await shared()
  t.regex(await removed.push(), /^queued: /)
  // As it was left behind by an earlier version.
  await api().db('workspace_members').where({ workspace_id: removed.workspaceId, user_id: removed.bob.id }).delete()
  t.regex(await removed.push(), ignored)
  const demoted = await shared()
  await api().db('workspace_members').where({ user_id: demoted.bob.id }).update({ role: 'maintain' })
  t.regex(await demoted.push(), ignored)
  const blocked = await shared()
  await setBlocked(api().db, blocked.bob.id, true)
  t.regex(await blocked.push(), ignored)
})
