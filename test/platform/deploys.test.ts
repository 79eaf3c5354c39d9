import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import test from 'ava'
import { bindInstallations, linkRepository } from '../../db/git/git-links.ts'
import { pause } from '../../lib/async/loop.ts'
import { named, webhookOf } from '../kit/git/deliveries.ts'
import { appEvent, appPush, asksProvider } from '../kit/git/git-app-events.ts'
import { GitProviderServer } from '../kit/git/git-provider.ts'
import { startGitServer, type TestRepository } from '../kit/git/git-server.ts'
import { logSink } from '../kit/log-sink.ts'
import { type Deployed, testPlatform } from '../kit/platform/platform.ts'
import { commandLines, filesWith, historyOf, searchFor, tablesWith } from '../kit/platform/secret-search.ts'
import { nodeProgram, type Program } from '../kit/programs.ts'
import { zipOf } from '../kit/zips.ts'

const git = await startGitServer()
const provider = await GitProviderServer.start()
provider.cloneBase = git.url
test.after.always('stop the git server and the provider', () => Promise.all([git.stop(), provider.stop()]))
const sink = logSink()
const started = testPlatform({
  log: sink.log,
  settings: {
    GIT_ALLOWED_HOSTS: git.host,
    GIT_PROVIDER_API_URL: provider.settings.apiUrl,
    GIT_PROVIDER_WEB_URL: provider.settings.webUrl,
    GIT_PROVIDER_APP_ID: provider.appId,
    GIT_PROVIDER_APP_SLUG: provider.settings.appSlug,
    GIT_PROVIDER_PRIVATE_KEY: provider.pem,
    GIT_PROVIDER_WEBHOOK_SECRET: provider.webhookSecret,
    GIT_PROVIDER_CLIENT_ID: provider.settings.clientId,
    GIT_PROVIDER_CLIENT_SECRET: provider.clientSecret,
  },
})

/** Keeps a diary in its folder: a line for each start. */
const diary = (text: string): Program => ({
  main: 'index.js',
  files: {
    'index.js': `const fs = require('node:fs')
fs.appendFileSync('diary.txt', ${JSON.stringify(`${text}\n`)})
require('node:http').createServer((request, answer) =>
  answer.end(request.url === '/diary' ? fs.readFileSync('diary.txt') : ${JSON.stringify(text)})).listen(process.env.PORT)
`,
  },
})

/** An application that runs, and a repository whose pushes call its webhook. */
async function linked(program: Program, options: { private?: boolean; token?: string } = {}) {
  const platform = await started
  const ana = await platform.api.makeUser()
  const app = await platform.deploy(ana, program)
  const token = options.token ?? git.token
  const path = await webhookOf(platform.api, ana, app.id, { access_token: token })
  const repository = await git.repository({ files: program.files, private: options.private })
  repository.hook = { url: platform.api.url + path, provider: 'github' }
  return { platform, ana, app, repository, as: platform.api.as(ana) }
}

/** Pushes, and waits for the end of the deployment that the answer names. */
async function pushed(repository: TestRepository, app: Deployed, program: Program) {
  const platform = await started
  const { reply, commit } = await repository.push(program.files)
  if (reply?.status !== 200) throw new Error(`the webhook answered ${reply?.status}: ${reply?.text}`)
  const id = /deployment ([0-9a-f]{32})/.exec(reply.text)?.[1]
  const row = await platform.db('deployments').where({ id }).first()
  return { reply, commit, id, app, operation: await platform.ended(row.operation_id) }
}

test.serial('20 deploys by push under load fail 0 requests, and lose no line that the applications wrote', async t => {
  t.timeout(170_000)
  const apps = await Promise.all([1, 2, 3, 4].map(() => linked(diary('version 0'))))
  const { platform } = apps[0]!
  let going = true
  let requests = 0
  const failures: string[] = []
  const load = apps.map(async ({ app }) => {
    while (going) {
      const seen = await platform.page(app.domain).catch(error => ({ status: 0, body: String(error) }))
      requests++
      if (seen.status !== 200) failures.push(`${seen.status} ${seen.body}`)
      await pause(10)
    }
  })
  const deploys = apps.map(async ({ app, repository }) => {
    for (let version = 1; version <= 5; version++) {
      const { operation } = await pushed(repository, app, diary(`version ${version}`))
      t.like(operation, { state: 'success', code: null })
      t.is((await platform.page(app.domain)).body, `version ${version}`)
    }
  })
  await Promise.all(deploys).finally(() => {
    going = false
  })
  await Promise.all(load)
  t.deepEqual(failures, [])
  t.log(`${requests} requests during 20 deploys`)
  t.true(requests > 200)
  for (const { app } of apps) {
    const { body } = await platform.page(app.domain, { path: '/diary' })
    t.is(body, [0, 1, 2, 3, 4, 5].map(version => `version ${version}\n`).join(''))
  }
  const names = apps.map(({ app }) => `berth-${app.id}-6`).sort()
  const retired = async () => (await platform.remains()).containers.sort().join() === names.join()
  await platform.until(retired, 30, 'the old versions are retired')
  for (const { as, app } of apps) t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
})

/** Answers `/held` once a later version gets a request for `/go`: both work in one folder. */
const holding = (text: string): Program => ({
  main: 'index.js',
  files: {
    'index.js': `const fs = require('node:fs')
require('node:http').createServer((request, answer) => {
  if (request.url === '/go') fs.writeFileSync('go.txt', '')
  if (request.url !== '/held') return answer.end(${JSON.stringify(text)})
  const look = setInterval(() => fs.existsSync('go.txt') && (clearInterval(look), answer.end(${JSON.stringify(`held by ${text}`)})), 20)
}).listen(process.env.PORT)
`,
  },
})

test.serial(
  'a request in progress during a switch of versions is answered by the version that received it',
  async t => {
    t.timeout(90_000)
    const { platform, app, repository, as } = await linked(holding('the old one'))
    const held = platform.page(app.domain, { path: '/held' })
    const deployed = pushed(repository, app, holding('the new one'))
    await platform.serves(app.domain, 'the new one', 60)
    // From here on the old one has 5 s.
    t.is((await platform.page(app.domain, { path: '/go' })).status, 200)
    t.is((await held).body, 'held by the old one')
    t.like((await deployed).operation, { state: 'success', code: null })
    t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
  },
)

test.serial(
  'after a push that does not stay up the old version keeps serving with its files, and the log gives the reason',
  async t => {
    t.timeout(90_000)
    const { platform, app, repository, as } = await linked(nodeProgram('the old one'))
    const broken = { main: 'index.js', files: { 'index.js': `console.log('last words'); process.exit(3)\n` } }
    const { operation, id, commit } = await pushed(repository, app, broken)
    t.like(operation, { state: 'error', code: 'HEALTH_CHECK_FAILED' })
    t.is((await platform.page(app.domain)).body, 'the old one')
    const [[...events]] = (await as.get(`/v2/apps/${app.id}/deployments`)).body.response
    t.deepEqual(
      events.map((event: { state: string }) => event.state),
      ['pending', 'clone', 'commit', 'restarting', 'error'],
    )
    t.like(events.at(-1), { id: commit, deployment_id: id, code: 'HEALTH_CHECK_FAILED' })
    const { logs } = (await as.get(`/v2/apps/${app.id}/deployments/${id}/logs`)).body.response
    t.true(logs.includes('last words'), logs)
    t.is((await as.post(`/v2/apps/${app.id}/restart`)).status, 200)
    await platform.serves(app.domain, 'the old one')
    t.deepEqual((await platform.remains()).containers, [`berth-${app.id}-1`])
    t.like((await pushed(repository, app, nodeProgram('mended'))).operation, { state: 'success' })
    await platform.serves(app.domain, 'mended')
    t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
  },
)

test.serial(
  'a private repository is fetched with the token; a refused one ends the deploy without retries',
  async t => {
    t.timeout(90_000)
    const open = await linked(nodeProgram('first'), { private: true })
    t.like((await pushed(open.repository, open.app, nodeProgram('private'))).operation, { state: 'success' })
    await open.platform.serves(open.app.domain, 'private')

    const shut = await linked(nodeProgram('first'), { private: true, token: 'of-somebody-else' })
    const before = git.requests.length
    const { operation, id } = await pushed(shut.repository, shut.app, nodeProgram('never'))
    t.like(operation, { state: 'error', code: 'AUTHENTICATION_REQUIRED' })
    const asked = git.requests.slice(before)
    t.true(asked.length <= 2, JSON.stringify(asked))
    const { text } = await shut.as.get(`/v2/apps/${shut.app.id}/deployments/${id}/logs`)
    t.false(text.includes('of-somebody-else'))
    t.is((await shut.platform.page(shut.app.domain)).body, 'first')
    for (const { as, app } of [open, shut]) t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
  },
)

/** Its installation prints what it is given and what lies about, and so does the program. */
const nosy = (text: string): Program => ({
  main: 'index.js',
  files: {
    ...nodeProgram(text).files,
    'package.json':
      '{"scripts":{"preinstall":"env; find / -xdev -name config -path \'*git*\' -exec cat {} + || true"}}',
  },
})

test.serial('a token of the git app is stored nowhere, whether its deploy succeeds or fails', async t => {
  t.timeout(120_000)
  const platform = await started
  const { db, api, base } = platform
  const ana = await api.makeUser()
  const app = await platform.deploy(ana, nodeProgram('first'))
  const person = provider.person()
  const covered = provider.repository(`${person.login}/shop`, { permissions: { [person.login]: 'write' } })
  const installation = provider.install(person.login, [covered], person)
  await bindInstallations(db, ana.id, person, [installation])
  const { id, fullName } = covered
  const repository = { id, fullName, cloneUrl: provider.cloneUrl(covered) }
  const link = { appId: app.id, userId: ana.id, installationId: installation.id, repository, branch: 'main' }
  t.deepEqual(await linkRepository(db, link), { kind: 'linked' })
  const code = await git.repository({ name: fullName, private: true, files: nodeProgram('first').files })
  const stop = asksProvider(git, provider, covered)
  t.teardown(stop)
  const deployed = async (program: Program) => {
    const { commit } = await code.push(program.files)
    const event = appEvent(provider, 'push', appPush(provider, covered, { installationId: installation.id, commit }))
    const answer = await api.as(undefined).post('/v2/git/app', event.body, event.headers)
    const row = await db('deployments')
      .where({ id: named(answer) })
      .first()
    return platform.ended(row.operation_id)
  }

  const first = git.requests.length
  t.like(await deployed(nosy('second')), { state: 'success', code: null })
  await platform.serves(app.domain, 'second')
  t.like(await deployed({ main: 'index.js', files: { 'index.js': 'process.exit(3)' } }), {
    code: 'HEALTH_CHECK_FAILED',
  })
  const refusing = git.behaviour.answer
  git.behaviour.answer = (request, answer) =>
    request.headers.authorization
      ? Boolean(answer.writeHead(401).end(request.headers.authorization))
      : refusing(request, answer)
  t.like(await deployed(nodeProgram('never')), { code: 'AUTHENTICATION_REQUIRED' })

  const holds = searchFor(provider.issued)
  t.true(provider.issued.length >= 3)
  const sent = git.requests.slice(first).filter(({ authorization }) => authorization !== null && holds(authorization))
  t.true(sent.length >= 3, 'the search finds it where it is')
  t.true(sink.text().includes(app.id), 'the log speaks of the application')
  t.false(holds(sink.text()))
  t.deepEqual(await tablesWith(db, holds), [])
  const reported = await historyOf(base.config, app.id)
  t.true(reported.includes(app.id) && reported.includes('AUTHENTICATION_REQUIRED'), 'the history is read')
  t.false(holds(reported))
  t.false(holds(commandLines()))
  t.deepEqual(filesWith(base.folder, holds), [])
  t.deepEqual(
    readdirSync(tmpdir()).filter(name => name.startsWith(`berth-git-${process.pid}-`)),
    [],
  )
  t.is((await api.as(ana).delete(`/v2/apps/${app.id}`)).status, 200)
})

test.serial('a commit places a zip over the program or one file into a folder, and earlier files stay', async t => {
  t.timeout(90_000)
  const platform = await started
  const ana = await platform.api.makeUser()
  const as = platform.api.as(ana)
  const app = await platform.deploy(ana, diary('one'))
  const commit = async (name: string, bytes: Buffer, query = '') => {
    const form = new FormData()
    form.append('file', new Blob([new Uint8Array(bytes)]), name)
    const answer = await as.post(`/v2/apps/${app.id}/commit${query}`, form)
    t.is(answer.status, 200, answer.text)
    return platform.ended(answer.headers.get('x-operation-id') as string)
  }
  t.like(await commit('more.zip', zipOf(diary('two').files)), { state: 'success', code: null })
  t.is((await platform.page(app.domain)).body, 'two')
  t.like(await commit('words.txt', Buffer.from('hello'), '?path=texts'), { state: 'success', code: null })
  t.is((await platform.page(app.domain, { path: '/diary' })).body, 'one\ntwo\ntwo\n')
  const [newest] = (await as.get(`/v2/apps/${app.id}/deployments`)).body.response
  t.deepEqual(newest.find((event: { state: string }) => event.state === 'commit').files.added, ['texts/words.txt'])

  const configured = (main: string) => Buffer.from(`DISPLAY_NAME=one\nMAIN=${main}\nMEMORY=512\nVERSION=recommended`)
  const refused = await commit('berth.app', configured('typo.js'))
  t.like(
    refused,
    { state: 'error', code: 'INVALID_MAIN' },
    'a configuration alone is held against the files that lie there',
  )
  t.is((await platform.page(app.domain)).body, 'two')
  t.like(await commit('other.js', Buffer.from(diary('three').files['index.js'] as string)), { state: 'success' })
  t.is((await platform.page(app.domain)).body, 'two')
  t.like(await commit('berth.app', configured('other.js')), { state: 'success', code: null })
  t.is((await platform.page(app.domain)).body, 'three')
  t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
})
