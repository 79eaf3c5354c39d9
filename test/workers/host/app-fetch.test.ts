import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { gitCli } from '../../../activities/git/cli.ts'
import { githubProvider } from '../../../activities/git-provider/github.ts'
import { deployCredentials } from '../../../workers/host/credentials.ts'
import { testKeys } from '../../kit/actors/api.ts'
import { link, testProviderApi } from '../../kit/git/connected.ts'
import { named } from '../../kit/git/deliveries.ts'
import { appEvent, appPush, asksProvider } from '../../kit/git/git-app-events.ts'
import { gitBench } from '../../kit/git/git-bench.ts'
import { startGitServer } from '../../kit/git/git-server.ts'

const bench = await gitBench()
const server = await startGitServer()
const { api, provider, connected } = await testProviderApi()
test.after.always(async () => {
  await server.stop()
  await bench.close()
})

test('a push of a linked private repository is fetched by git with a token of the app, while the app covers it', async t => {
  const git = gitCli({ scratch: bench.scratch })
  const { user, app, repository, installation } = await connected()
  const code = await server.repository({ name: repository.fullName, private: true, files: { 'index.js': 'let a = 1' } })
  const { commit } = await code.push({ 'index.js': 'let a = 2' })
  provider.cloneBase = server.url
  asksProvider(server, provider, repository)

  t.is((await link(api(), user, app.id, repository.fullName)).status, 200)
  const event = appEvent(provider, 'push', appPush(provider, repository, { installationId: installation.id, commit }))
  const answer = await api().as(undefined).post('/v2/git/app', event.body, event.headers)
  t.is(answer.status, 200, answer.text)
  const deployment = await api()
    .db('deployments')
    .where({ id: named(answer) })
    .first()

  const client = githubProvider(provider.settings, provider.pem)
  const token = await deployCredentials(api().db, { sealKeys: testKeys }, client)(deployment.id)
  const request = { url: deployment.clone_url, commit: deployment.revision, allowedHosts: [server.host] }
  const fetched = await bench.fetch(git, { ...request, token })
  t.is(fetched.error, null, String(fetched.error))
  t.is(await readFile(join(fetched.folder, 'index.js'), 'utf8'), 'let a = 2')

  installation.repositories.delete(repository.id)
  const refused = await bench.fetch(git, { ...request, token })
  t.is(refused.error?.code, 'AUTHENTICATION_REQUIRED')
  t.false(JSON.stringify([refused.error?.message, refused.lines, fetched.lines]).includes(token!))
  t.is((await bench.fetch(git, { ...request, token: null })).error?.code, 'AUTHENTICATION_REQUIRED')
})
