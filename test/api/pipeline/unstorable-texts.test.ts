import test from 'ava'
import { testApi } from '../../kit/actors/api.ts'
import { sent } from '../../kit/actors/sent-files.ts'
import { webhookOf } from '../../kit/git/deliveries.ts'

const lost: unknown[] = []
const keep = (...line: unknown[]) => void lost.push(line)
const api = testApi({ services: () => ({ log: { info() {}, warn() {}, error: keep } }) })

/** What neither Postgres nor any file name keeps as it is. */
const texts = ['a\0b', '\0', 'a\ud800b', '\udc00']

test('a field with its own code refuses an unstorable text with it, any other with INVALID_INPUT', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const withSession: [method: string, path: string, body: (text: string) => unknown, code: string][] = [
    ['PATCH', '/v2/account/username', username => ({ username }), 'INVALID_USERNAME'],
    ['PATCH', '/v2/account/locale', locale => ({ locale }), 'INVALID_LOCALE'],
    [
      'POST',
      '/v2/account/downgrade',
      text => ({ confirmCode: text.padEnd(8, 'x').slice(0, 8) }),
      'CONFIRM_CODE_INVALID',
    ],
    ['POST', '/v2/workspaces', name => ({ name }), 'INVALID_NAME'],
    [
      'POST',
      `/v2/apps/${app.id}/deploy/github-app`,
      text => ({ repositoryName: `a/${text}`, repositoryBranch: 'main' }),
      'INVALID_INPUT',
    ],
    ['POST', `/v2/apps/${app.id}/envs`, text => ({ envs: { A: text } }), 'INVALID_ENV_CONTENT'],
    ['POST', `/v2/apps/${app.id}/envs`, text => ({ envs: { [text]: 'A' } }), 'INVALID_ENV_CONTENT'],
    ['PUT', `/v2/apps/${app.id}/files`, path => ({ path, content: '' }), 'INVALID_PATH'],
    [
      'POST',
      `/v2/apps/${app.id}/deploy/webhook`,
      text => ({ access_token: 'x', secret: `${text}12345678` }),
      'INVALID_INPUT',
    ],
  ]
  for (const [method, path, body, code] of withSession)
    for (const text of texts) {
      const answer = await api()
        .as(ana.session)
        .request(method, path, { body: JSON.stringify(body(text)) })
      t.deepEqual([answer.status, answer.body.code], [400, code], `${method} ${path} ${JSON.stringify(text)}`)
    }
  t.like((await api().as(ana).get('/v2/users/me')).body.response.user, { name: 'Ana', locale: 'en-US' })
})

test('an invalid id among several fails alone', async t => {
  const ana = await api().makeUser()
  for (const text of texts) {
    const [one, other] = [await sent(api(), ana, {}), await sent(api(), ana, {})]
    const bad = `pub/${ana.id}/${text}`
    const update = { objects: [bad, one.id], disposition: 'inline' }
    const updated = await api()
      .blobAs(ana)
      .request('PATCH', '/v1/objects', { body: JSON.stringify(update) })
    t.is(updated.status, 200, updated.text)
    t.deepEqual(updated.body.response.results[0], { object: bad, ok: false, code: 'INVALID_OBJECT' })
    t.like(updated.body.response.results[1], { object: one.id, ok: true })
    const removal = (objects: unknown) =>
      api()
        .blobAs(ana)
        .request('DELETE', '/v1/objects', { body: JSON.stringify({ objects }) })
    t.deepEqual((await removal([bad, one.id, other.id])).body.response, {
      deleted: [one.id, other.id],
      not_found: [],
      failed: [{ id: bad, code: 'INVALID_OBJECT' }],
    })
    const alone = await removal(bad)
    t.deepEqual([alone.status, alone.body.code], [400, 'INVALID_OBJECT'])
  }
})

test('a rule names the field that cannot be stored', async t => {
  const ana = await api().makeUser()
  const fields: [rule: (text: string) => object, code: string][] = [
    [text => ({ prefix: `a${text}/` }), 'INVALID_RULE_PREFIX'],
    [text => ({ prefix: 'a/', extensions: [text] }), 'INVALID_RULE_EXTENSIONS'],
    [text => ({ prefix: 'a/', cache_control: text }), 'INVALID_OBJECT_CACHE_CONTROL'],
    [text => ({ prefix: 'a/', expire: text }), 'INVALID_OBJECT_EXPIRE'],
  ]
  for (const [rule, code] of fields)
    for (const text of texts) {
      const body = JSON.stringify({ rules: [rule(text)] })
      const answer = await api().blobAs(ana).request('PUT', '/v1/account/settings', { body })
      t.deepEqual([answer.status, answer.body.code], [400, code], JSON.stringify(text))
    }
})

test('an unstorable text in an address is a missing resource, or the code of its parameter', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeApp(ana)
  const management: [path: string, status: number, code: string][] = [
    ['/v2/apps/%00', 404, 'APP_NOT_FOUND'],
    [`/v2/apps/${id}%00`, 404, 'APP_NOT_FOUND'],
    ['/v2/apps/%ED%A0%80', 404, 'ROUTE_NOT_FOUND'],
    [`/v2/apps/${id}/deployments/%00/logs`, 404, 'DEPLOYMENT_NOT_FOUND'],
    ['/v2/workspaces/%00', 404, 'WORKSPACE_NOT_FOUND'],
    ['/v2/apps/status?workspaceId=%00', 404, 'UNKNOWN_WORKSPACE'],
    [`/v2/apps/${id}/files?path=%00`, 400, 'INVALID_PATH'],
    ['/v2/users/snapshots?scope=%00', 400, 'INVALID_SCOPE'],
    ['/v2/account/audit?cursor=%00', 400, 'INVALID_INPUT'],
  ]
  for (const [path, status, code] of management) {
    const answer = await api().as(ana).get(path)
    t.deepEqual([answer.status, answer.body.code], [status, code], path)
  }
  for (const [url, path] of [
    [api().filesUrl, '/d/%00'],
    [api().filesUrl, '/s/%00'],
    [api().filesUrl, '/s/%ED%A0%80'],
    [api().filesUrl, `/applications/${ana.id}/%00.zip?Expires=1&Signature=%00&versionId=%00`],
    [api().publicUrl, `/pub/${ana.id}/%00`],
    [api().publicUrl, `/pub/${ana.id}/%ED%A0%80`],
    [api().publicUrl, '/%00'],
  ])
    t.is((await fetch(`${url}${path}`)).status, 404, path)
})

test('a push with any text is stored or refused, and never a 500', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const hook = await webhookOf(api(), ana, app.id, { access_token: 'token' })
  for (const [index, text] of texts.entries()) {
    const push = (change: object) =>
      JSON.stringify({
        ref: 'refs/heads/main',
        after: 'a'.repeat(39) + index,
        repository: { clone_url: 'https://example.org/a.git', full_name: 'a/b', owner: { login: 'a' }, name: 'b' },
        commits: [{ message: text, added: [`a${text}`], removed: [], modified: [text] }],
        ...change,
      })
    for (const [change, statuses] of [
      [{}, [200]],
      [{ ref: `refs/heads/${text}` }, [400]],
      [{ after: text }, [400]],
      [{ pusher: { name: text }, sender: text }, [200]],
      [
        { repository: { clone_url: `https://example.org/${text}`, full_name: 'a/b', owner: { login: text } } },
        [200, 400],
      ],
    ] as const) {
      const headers = { 'x-github-event': 'push', 'content-type': 'application/json' }
      const answer = await fetch(api().url + hook, { method: 'POST', headers, body: push(change) })
      t.true(
        (statuses as readonly number[]).includes(answer.status),
        `${JSON.stringify(change)} ${await answer.text()}`,
      )
    }
  }
})

test('the audit record omits an id that no object can have, and loses no entry', async t => {
  const ana = await api().makeUser()
  const bad = [...texts, 'x'.repeat(500_000)].map(key => `pub/${ana.id}/${key}`)
  for (const object of bad) {
    const updated = await api()
      .blobAs(ana)
      .request('PATCH', '/v1/objects', { body: JSON.stringify({ object, disposition: 'inline' }) })
    t.is(updated.status, 200, updated.text)
  }
  const kept = await api().db('audit').where({ actor: ana.id, action: 'objects.update' }).pluck('resource')
  t.deepEqual(
    kept.map(resource => resource?.length),
    bad.map(() => undefined),
  )
  t.deepEqual(lost, [])
})
