import type { ServerResponse } from 'node:http'
import test from 'ava'
import { bindInstallations } from '../../../../db/git/git-links.ts'
import type { Answer } from '../../../kit/actors/api.ts'
import { link, testProviderApi } from '../../../kit/git/connected.ts'

const { api, provider, connected } = await testProviderApi()

test.afterEach(() => {
  provider.takeOver = () => false
})

const code = (answer: Answer) => [answer.status, answer.body.code]
const current = async (user: { key: string }, appId: string) =>
  (await api().as(user.key).get(`/v2/apps/${appId}/deployments/current`)).body.response

test.serial('a repository is linked, shown immediately, and unlinked', async t => {
  const { user, app, repository } = await connected({ branches: ['main', 'feature/one'] })
  t.deepEqual(await current(user, app.id), {})
  const linked = await link(api(), user, app.id, repository.fullName.toUpperCase(), 'feature/one')
  t.is(linked.status, 200, linked.text)
  t.deepEqual(linked.body.response, {
    repository: { id: repository.id, full_name: repository.fullName, branch: 'feature/one' },
  })
  t.deepEqual(await current(user, app.id), {
    app: { id: repository.id, name: repository.fullName, branch: 'feature/one' },
  })
  t.deepEqual(code(await link(api(), user, app.id, repository.fullName)), [400, 'GIT_ALREADY_CONFIGURED'])
  const path = `/v2/apps/${app.id}/deploy/github-app`
  t.deepEqual((await api().as(user).delete(path)).body, { status: 'success' })
  t.deepEqual(await current(user, app.id), {})
  t.deepEqual(code(await api().as(user).delete(path)), [400, 'GIT_NOT_CONFIGURED'])
})

test.serial('a link is stored with its audit entry, or not at all', async t => {
  const { user, app, repository } = await connected()
  const { db } = api()
  await db.raw(`
    create function no_entry() returns trigger language plpgsql as $$ begin raise exception 'no space'; end $$;
    create trigger no_entry before insert on audit for each row execute function no_entry()`)
  const refused = await link(api(), user, app.id, repository.fullName)
  await db.raw('drop trigger no_entry on audit; drop function no_entry()')
  t.is(refused.status, 500, refused.text)
  t.deepEqual(await current(user, app.id), {})
  t.is((await link(api(), user, app.id, repository.fullName)).status, 200)
  const entries = await db('audit').where({ account_id: user.id, action: 'apps.link' }).select('resource', 'result')
  t.deepEqual(entries, [{ resource: app.id, result: 'success' }])
})

test.serial('every refusal has its own code, and queries the provider only when necessary', async t => {
  const { user, app, person, repository, installation } = await connected()
  const asked = provider.requests.length
  t.deepEqual(code(await link(api(), user, app.id, undefined)), [400, 'MISSING_REQUIRED_FIELDS'])
  t.deepEqual(code(await link(api(), user, app.id, 7)), [400, 'MISSING_REQUIRED_FIELDS'])
  t.deepEqual(code(await link(api(), user, app.id, repository.fullName, '')), [400, 'MISSING_REQUIRED_FIELDS'])
  t.deepEqual(code(await link(api(), user, app.id, repository.fullName, 'b'.repeat(257))), [
    400,
    'INVALID_BRANCH_LENGTH',
  ])
  for (const name of ['shop', '../..', 'a/b/c', `${person.login}/..`, 'a/b?x=1', 'a/%2e%2e'])
    t.deepEqual(code(await link(api(), user, app.id, name)), [404, 'REPOSITORY_NOT_FOUND'], name)
  const stranger = await api().makeUser()
  t.deepEqual(code(await link(api(), stranger, (await api().makeApp(stranger)).id, repository.fullName)), [
    403,
    'GITHUB_NOT_CONNECTED',
  ])
  t.is(provider.requests.length, asked)

  t.deepEqual(code(await link(api(), user, app.id, repository.fullName, 'missing')), [400, 'BRANCH_NOT_FOUND'])
  t.deepEqual(code(await link(api(), user, app.id, repository.fullName, 'a..b')), [400, 'BRANCH_NOT_FOUND'])
  t.deepEqual(code(await link(api(), user, app.id, `${person.login}/none`)), [404, 'REPOSITORY_NOT_FOUND'])
  provider.repository('public/other', { private: false })
  t.deepEqual(code(await link(api(), user, app.id, 'public/other')), [403, 'REPOSITORY_NOT_AVAILABLE'])

  repository.permissions[person.login] = 'read'
  t.deepEqual(code(await link(api(), user, app.id, repository.fullName)), [403, 'REPOSITORY_PERMISSION_REQUIRED'])
  repository.permissions[person.login] = 'admin'
  installation.contents = undefined
  t.deepEqual(code(await link(api(), user, app.id, repository.fullName)), [403, 'REPOSITORY_PERMISSION_REQUIRED'])
  installation.contents = 'read'
  installation.suspended = true
  t.deepEqual(code(await link(api(), user, app.id, repository.fullName)), [403, 'REPOSITORY_NOT_AVAILABLE'])
  installation.suspended = false
  t.is((await link(api(), user, app.id, repository.fullName)).status, 200)
})

test.serial('a repository of another account is answered like a missing one', async t => {
  const ana = await connected()
  const bob = await connected()
  t.deepEqual(code(await link(api(), bob.user, bob.app.id, ana.repository.fullName)), [404, 'REPOSITORY_NOT_FOUND'])
  // A login that changed hands is another person.
  await bindInstallations(api().db, ana.user.id, { id: 1, login: ana.person.login }, [ana.installation])
  t.deepEqual(code(await link(api(), ana.user, ana.app.id, ana.repository.fullName)), [
    403,
    'REPOSITORY_PERMISSION_REQUIRED',
  ])
})

test.serial('of ten concurrent links one application wins, and only its owner learns which', async t => {
  const { user, app, repository, installation, person } = await connected()
  const apps = [app, ...(await Promise.all(Array.from({ length: 9 }, () => api().makeApp(user))))]
  const answers = await Promise.all(apps.map(({ id }) => link(api(), user, id, repository.fullName)))
  t.is(answers.filter(answer => answer.status === 200).length, 1)
  const winner = apps[answers.findIndex(answer => answer.status === 200)]!
  for (const answer of answers.filter(({ status }) => status !== 200)) {
    t.deepEqual(code(answer), [409, 'REPOSITORY_BRANCH_ALREADY_CONFIGURED'])
    t.true(answer.body.message.includes(winner.id))
  }
  t.is((await api().db('git_links').where({ repository_id: repository.id })).length, 1)

  const bob = await api().makeUser()
  await bindInstallations(api().db, bob.id, person, [installation])
  const refused = await link(api(), bob, (await api().makeApp(bob)).id, repository.fullName)
  t.deepEqual(code(refused), [409, 'REPOSITORY_BRANCH_ALREADY_CONFIGURED'])
  t.false(refused.text.includes(winner.id))
  t.false(refused.text.includes(winner.name))
})

test.serial('ten concurrent links of one application: one link, nine refusals', async t => {
  const { user, app, repository } = await connected({ branches: ['main', 'next'] })
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, i) => link(api(), user, app.id, repository.fullName, i % 2 ? 'main' : 'next')),
  )
  t.is(answers.filter(answer => answer.status === 200).length, 1)
  for (const answer of answers.filter(({ status }) => status !== 200))
    t.deepEqual(code(answer), [400, 'GIT_ALREADY_CONFIGURED'])
})

const troubles: [name: string, answer: (response: ServerResponse) => void, status: number, code: string][] = [
  ['busy', answer => answer.writeHead(503).end(), 502, 'FAILED_TO_FETCH'],
  [
    'over its rate',
    answer => answer.writeHead(403, { 'x-ratelimit-remaining': '0' }).end('{}'),
    502,
    'FAILED_TO_FETCH',
  ],
  ['cut', answer => answer.destroy(), 502, 'FAILED_TO_FETCH'],
  ['no JSON', answer => answer.writeHead(200).end('<html>sign in</html>'), 502, 'VALIDATION_FAILED'],
  ['another form', answer => answer.writeHead(200).end('{"id":"seven"}'), 502, 'VALIDATION_FAILED'],
  ['app refused', answer => answer.writeHead(401).end('{}'), 502, 'VALIDATION_FAILED'],
  ['endless', answer => void endless(answer), 502, 'VALIDATION_FAILED'],
  ['silent', () => {}, 504, 'VALIDATION_TIMEOUT'],
]

for (const [name, answer, status, expected] of troubles)
  test.serial(`a failing provider: ${name}`, async t => {
    const { user, app, repository } = await connected()
    provider.takeOver = (_, response) => {
      answer(response)
      return true
    }
    const startedAt = performance.now()
    const refused = await link(api(), user, app.id, repository.fullName)
    t.deepEqual(code(refused), [status, expected])
    t.true(performance.now() - startedAt < 6500)
    t.is(await api().db('git_links').where({ app_id: app.id }).first(), undefined)
  })

function endless(response: ServerResponse): void {
  response.writeHead(200)
  const more = () => {
    while (!response.destroyed && response.write('x'.repeat(65_536))) {}
  }
  response.on('drain', more)
  more()
}

test.serial('a token follows a redirect within the provider, and never leaves it', async t => {
  const { user, app, repository } = await connected()
  const other = await import('../../../kit/servers/origin.ts').then(({ startOrigin }) =>
    startOrigin((request, response) => {
      seen.push(request.headers.authorization)
      response.end('{"id":1}')
    }),
  )
  t.teardown(() => other.stop())
  const seen: unknown[] = []
  const from = `/api/repos/${repository.fullName}`
  provider.takeOver = ({ url }, response) => {
    if (url === from) response.writeHead(301, { location: `http://127.0.0.1:${other.port}/repos/x/y` }).end()
    return url === from
  }
  t.deepEqual(code(await link(api(), user, app.id, repository.fullName)), [502, 'VALIDATION_FAILED'])
  t.deepEqual(seen, [])
  const old = `${repository.fullName}-old`
  provider.takeOver = ({ url = '' }, response) => {
    const renamed = url.replace(old, repository.fullName)
    if (url !== renamed) response.writeHead(301, { location: renamed }).end()
    return url !== renamed
  }
  const linked = await link(api(), user, app.id, old)
  t.is(linked.body.response?.repository.full_name, repository.fullName, linked.text)
})
