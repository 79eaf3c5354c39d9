import test from 'ava'
import { githubProvider } from '../../../activities/git-provider/github.ts'
import type { Db } from '../../../db/database.ts'
import { queueDeploy } from '../../../db/deploys/deploys.ts'
import { bindInstallations, linkRepository, unlinkRepository } from '../../../db/git/git-links.ts'
import { setWebhook } from '../../../db/git/webhooks.ts'
import { deployCredentials } from '../../../workers/host/credentials.ts'
import { testKeys } from '../../kit/actors/api.ts'
import { GitProviderServer } from '../../kit/git/git-provider.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const provider = await GitProviderServer.start()
test.after.always(() => provider.stop())
const database = testDatabase()
const client = githubProvider(provider.settings, provider.pem)

async function setting(db: Db) {
  const make = rows(db)
  await make.host('h1').catch(() => {})
  const user = await make.user()
  const { app } = await make.app(user.id)
  const deploy = async (trigger: 'webhook' | 'app' | 'upload', cloneUrl: string) => {
    const revision = 'c'.repeat(40)
    const request = { appId: app.id, ownerId: user.id, actor: user.id, trigger, revision, cloneUrl, branch: 'main' }
    return (await queueDeploy(db, request))!.deploymentId
  }
  return { user, app, deploy, credentials: deployCredentials(db, { sealKeys: testKeys }, client) }
}

test.serial('a webhook’s token goes only to the server of its first push', async t => {
  const { db } = await database
  const { app, deploy, credentials } = await setting(db)
  await setWebhook(db, testKeys, { appId: app.id, address: 'a'.repeat(64), token: 'the-token', secret: null })
  const here = await deploy('webhook', 'https://git.example.org/a/b.git')
  t.is(await credentials(here), null)
  await db('git_webhooks').where({ app_id: app.id }).update({ token_host: 'https://git.example.org' })
  t.is(await credentials(here), 'the-token')
  t.is(await credentials(await deploy('webhook', 'https://evil.example.org/a/b.git')), null)
  t.is(await credentials(await deploy('webhook', 'http://git.example.org/a/b.git')), null)
  t.is(await credentials(await deploy('upload', 'https://git.example.org/a/b.git')), null)
  t.is(await credentials('f'.repeat(32)), null)
})

test.serial('the app fetches with a new token that reads only the linked repository', async t => {
  const { db } = await database
  const { user, app, deploy, credentials } = await setting(db)
  const person = provider.person()
  const [wanted, other] = [provider.repository('ana/shop'), provider.repository('ana/diary')]
  const installation = provider.install('ana', [wanted, other], person)
  await bindInstallations(db, user.id, person, [installation])
  const repository = { id: wanted.id, fullName: wanted.fullName, cloneUrl: provider.cloneUrl(wanted) }
  const link = { appId: app.id, userId: user.id, installationId: installation.id, repository, branch: 'main' }
  t.deepEqual(await linkRepository(db, link), { kind: 'linked' })
  const deployment = await deploy('app', provider.cloneUrl(wanted))
  const [token, again] = [await credentials(deployment), await credentials(deployment)]
  t.not(token, again)
  t.true(provider.mayRead(token!, wanted))
  t.false(provider.mayRead(token!, other))

  const elsewhere = await deploy('app', 'http://127.0.0.2:1/ana/shop.git')
  await t.throwsAsync(credentials(elsewhere), { message: /no longer/ })
  installation.suspended = true
  const refused = await t.throwsAsync(credentials(deployment))
  t.like(refused, { type: 'AUTHENTICATION_REQUIRED', nonRetryable: true })
  installation.suspended = false
  provider.takeOver = (_, response) => {
    response.writeHead(502).end()
    return true
  }
  const away = await t.throwsAsync(credentials(deployment))
  t.not((away as { nonRetryable?: boolean }).nonRetryable, true)
  provider.takeOver = () => false
  await unlinkRepository(db, app.id)
  t.like(await t.throwsAsync(credentials(deployment)), { type: 'AUTHENTICATION_REQUIRED', nonRetryable: true })
})
