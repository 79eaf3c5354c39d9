import test from 'ava'
import { setBlocked } from '../../../../db/accounts/accounts.ts'
import { listInstallations } from '../../../../db/git/git-links.ts'
import { deletionUnderWay } from '../../../kit/actors/deletions.ts'
import { type Connected, laterWebhookSecret, link, testProviderApi } from '../../../kit/git/connected.ts'
import { named, newCommit } from '../../../kit/git/deliveries.ts'
import { appEvent, appPush } from '../../../kit/git/git-app-events.ts'

const { api, provider, connected } = await testProviderApi()

async function linked(): Promise<Connected> {
  const made = await connected({ branches: ['main', 'next'] })
  const answer = await link(api(), made.user, made.app.id, made.repository.fullName)
  if (answer.status !== 200) throw new Error(answer.text)
  return made
}

const send = ({ headers, body }: { headers: Record<string, string>; body: string }) =>
  api().as(undefined).post('/v2/git/app', body, headers)

const push = (
  { repository, installation }: Connected,
  { branch, commit = newCommit(), ...rest }: { branch?: string; commit?: string; id?: string; secret?: string } = {},
) =>
  send(
    appEvent(
      provider,
      'push',
      appPush(provider, repository, { installationId: installation.id, commit, branch }),
      rest,
    ),
  )

const deployments = (appId: string) => api().db('deployments').where({ app_id: appId, trigger: 'app' })

test.serial('a push to the linked branch becomes a deployment, answered and listed like any other', async t => {
  const made = await linked()
  const commit = newCommit()
  const answer = await push(made, { commit })
  t.is(answer.status, 200, answer.text)
  const [row, ...more] = await deployments(made.app.id)
  t.is(more.length, 0)
  t.is(answer.text, `queued: deployment ${row.id} of commit ${commit.slice(0, 7)} on main, position 1 in the queue`)
  t.like(row, { revision: commit, branch: 'main', clone_url: provider.cloneUrl(made.repository), source: 'git' })
  t.true(api().lanes.woken.includes(made.app.id))
  const listed = await api().as(made.user).get(`/v2/apps/${made.app.id}/webhook-deliveries`)
  t.like(listed.body.response[0], { provider: 'github', event: 'push', verdict: 'queued', deployment_id: row.id })
})

test.serial('ten concurrent copies of one delivery are one deployment', async t => {
  const made = await linked()
  const commit = newCommit()
  const answers = await Promise.all(Array.from({ length: 10 }, () => push(made, { commit, id: 'once' })))
  const rows = await deployments(made.app.id)
  t.is(rows.length, 1)
  for (const answer of answers) t.deepEqual([answer.status, named(answer)], [200, rows[0].id])
})

test.serial('an application that is being deleted accepts no push; one whose deletion failed does', async t => {
  const made = await linked()
  const deletion = await deletionUnderWay(api(), { ana: made.user, app: made.app })
  t.regex((await push(made)).text, /^ignored: /)
  t.is((await deployments(made.app.id)).length, 0)
  await deletion.fail()
  t.is((await push(made)).status, 200)
  t.is((await deployments(made.app.id)).length, 1)
})

test.serial('an application may have a webhook and a link', async t => {
  const made = await linked()
  const set = await api().as(made.user).post(`/v2/apps/${made.app.id}/deploy/webhook`, '{"access_token":"some-token"}')
  const current = await api().as(made.user).get(`/v2/apps/${made.app.id}/deployments/current`)
  t.deepEqual(current.body.response, {
    app: { id: made.repository.id, name: made.repository.fullName, branch: 'main' },
    webhook: set.body.response.webhook,
  })
  t.is((await push(made)).status, 200)
})

test.serial('while one secret replaces another, deliveries signed with either are accepted', async t => {
  const made = await linked()
  t.is((await push(made)).status, 200)
  t.is((await push(made, { secret: laterWebhookSecret })).status, 200)
  t.is((await push(made, { secret: `${laterWebhookSecret} ${provider.webhookSecret}` })).status, 401)
  t.is((await deployments(made.app.id)).length, 2)
})

test.serial('without a valid signature nothing is read and nothing happens', async t => {
  const made = await linked()
  const good = appEvent(
    provider,
    'push',
    appPush(provider, made.repository, { installationId: made.installation.id, commit: newCommit() }),
  )
  const { 'x-hub-signature-256': signature, ...unsigned } = good.headers
  const forged: Record<string, string>[] = [
    unsigned,
    { ...unsigned, 'x-hub-signature': signature!.replace('sha256', 'sha1') },
    { ...unsigned, 'x-gitlab-event': 'Push Hook', 'x-gitlab-token': provider.webhookSecret },
    { ...good.headers, 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` },
    { ...good.headers, 'x-hub-signature-256': 'sha256=' },
    { ...good.headers, 'x-gitea-signature': '0'.repeat(64) },
  ]
  for (const headers of forged) {
    const answer = await send({ headers, body: good.body })
    t.deepEqual([answer.status, answer.text.split(':')[0]], [401, 'refused'], JSON.stringify(headers))
  }
  t.is((await send({ headers: good.headers, body: `${good.body} ` })).status, 401)
  t.is((await push(made, { secret: 'another secret' })).status, 401)
  t.is((await push(made, { secret: '' })).status, 401, 'blanks around the setting are no secret')
  const removal = { action: 'deleted', installation: { id: made.installation.id } }
  t.is((await send(appEvent(provider, 'installation', removal, { secret: 'x' }))).status, 401)
  t.is((await listInstallations(api().db, made.user.id)).length, 1)
  t.is((await deployments(made.app.id)).length, 0)
})

test.serial('a delivery that deploys nothing is 202', async t => {
  const made = await linked()
  const { installation, repository } = made
  const payload = appPush(provider, repository, { installationId: installation.id, commit: newCommit() })
  const events: [name: string, payload: object][] = [
    ['ping', { zen: 'x' }],
    ['issues', { action: 'opened', installation }],
    ['installation', { action: 'created', installation: { id: installation.id } }],
    ['push', { ...payload, ref: 'refs/heads/next' }],
    ['push', { ...payload, ref: 'refs/tags/v1' }],
    ['push', { ...payload, after: '0'.repeat(40), deleted: true }],
    ['push', { ...payload, repository: { ...payload.repository, id: 1 } }],
    ['push', { ...payload, installation: { id: 1 } }],
  ]
  for (const [name, body] of events) {
    const answer = await send(appEvent(provider, name, body))
    t.deepEqual([answer.status, answer.text.split(':')[0]], [202, 'ignored'], `${name} ${JSON.stringify(body)}`)
  }
  t.is((await send(appEvent(provider, 'push', { ...payload, installation: undefined }))).status, 400)
  await setBlocked(api().db, made.user.id, true)
  t.is((await push(made)).status, 202)
  t.is((await deployments(made.app.id)).length, 0)
})

test.serial('repositories that the app no longer covers are unlinked immediately', async t => {
  const made = await linked()
  const { installation, repository, user, app } = made
  const current = async () => (await api().as(user).get(`/v2/apps/${app.id}/deployments/current`)).body.response
  t.truthy((await current()).app)
  const narrowed = {
    action: 'removed',
    installation: { id: installation.id },
    repositories_removed: [{ id: repository.id, full_name: repository.fullName }],
  }
  t.is((await send(appEvent(provider, 'installation_repositories', narrowed))).status, 202)
  t.deepEqual(await current(), {})
  t.is((await push(made)).status, 202)

  t.is((await link(api(), user, app.id, repository.fullName)).status, 200)
  t.truthy((await current()).app)
  const removal = { action: 'deleted', installation: { id: installation.id } }
  for (let n = 0; n < 2; n++) t.is((await send(appEvent(provider, 'installation', removal))).status, 202)
  t.deepEqual(await current(), {})
  t.deepEqual(await listInstallations(api().db, user.id), [])
  const refused = await link(api(), user, app.id, repository.fullName)
  t.deepEqual([refused.status, refused.body.code], [403, 'GITHUB_NOT_CONNECTED'])
})
