import { randomBytes } from 'node:crypto'
import test from 'ava'
import type { SurfaceTargets } from '../../edge/surfaces.ts'
import { formOf } from '../kit/actors/sent-files.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { pushEvent } from '../kit/git/git-events.ts'
import { startGitServer } from '../kit/git/git-server.ts'
import { logSink } from '../kit/log-sink.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { commandLines, filesWith, historyOf, searchFor, tableTexts } from '../kit/platform/secret-search.ts'
import { configOf, nodeProgram } from '../kit/programs.ts'
import { readMail, startMailServer } from '../kit/servers/mail-server.ts'
import { ModelServer, toolCall } from '../kit/servers/model-server.ts'
import { ask, type Seen } from '../kit/servers/origin.ts'
import { startProxy } from '../kit/servers/proxy.ts'
import { zipOf } from '../kit/zips.ts'

const git = await startGitServer()
const mail = await startMailServer()
const model = await ModelServer.start()
test.after.always('stop the servers', () => Promise.all([git.stop(), mail.stop(), model.stop()]))
const modelKey = `sk-${randomBytes(12).toString('hex')}`
const mailPassword = `mail-${randomBytes(12).toString('hex')}`
const sink = logSink()
const started = testPlatform({
  log: sink.log,
  settings: {
    GIT_ALLOWED_HOSTS: git.host,
    HEALTH_GATE_SECONDS: '4',
    SMTP_URL: `smtp://berth:${mailPassword}@${mail.host}:${mail.port}`,
    MAIL_FROM: 'berth@example.org',
    AI_UPSTREAM_URL: model.url,
    AI_UPSTREAM_KEY: modelKey,
  },
})

/** Secrets, which may be only in rows, sealed or hashed. */
const secrets = new Map<string, string>()
/** Contents of people, which are in their rows and files, and in nothing that operators read. */
const contents = new Map<string, string>()
const plantedIn = (group: Map<string, string>) => (what: string, text?: string) => {
  const planted = text ?? `canary-${randomBytes(12).toString('hex')}`
  group.set(group.has(what) ? `${what} ${group.size}` : what, planted)
  return planted
}
const [secret, content] = [plantedIn(secrets), plantedIn(contents)]

interface Sent {
  as?: string
  headers?: Record<string, string>
  body?: RequestInit['body']
}

test('a secret from any input is in no log, history, refusal, row or command line', async t => {
  t.timeout(170_000)
  const platform = await started
  const { api, db } = platform
  const at = (url: string) => [new URL(url).host]
  const targets: SurfaceTargets = {
    api: at(api.url),
    blob: at(api.blobUrl),
    files: at(api.filesUrl),
    public: at(api.publicUrl),
    s3: ['127.0.0.1:1'],
  }
  const front = await startProxy({}, () => ({ targets }))
  t.teardown(() => front.stop())

  const refusals: Seen[] = []
  const send = async (
    surface: keyof SurfaceTargets,
    request: string,
    sent: Sent = {},
    refused?: 'refused',
  ): Promise<Seen> => {
    const [method, path] = request.split(' ') as [string, string]
    const form = new Response(sent.body)
    const type = form.headers.get('content-type')
    const headers = {
      ...(sent.as && { authorization: sent.as }),
      ...(type && { 'content-type': type }),
      ...sent.headers,
    }
    const body = sent.body === undefined ? undefined : Buffer.from(await form.arrayBuffer())
    const seen = await ask(front.port, `${surface}.localhost`, { method, path, headers, body })
    t.is(seen.status >= 400, refused === 'refused', `${request}: ${seen.status} ${seen.body}`)
    if (refused) refusals.push(seen)
    return seen
  }
  const json = (value: unknown) => JSON.stringify(value)
  const response = ({ body }: Seen) => JSON.parse(body).response

  // A sign-in: the code goes by mail, the session and the key are answers.
  const ana = await api.makeUser()
  const email = 'planted@example.org'
  await db('users').where({ id: ana.id }).update({ email })
  await send('api', 'POST /v2/account/sign-in', { body: json({ email }) })
  await comesTrue(() => mail.received.length > 0)
  secret('mail password', mailPassword)
  t.is(mail.logins[0]?.pass, mailPassword)
  secret('code', /^ {4}([A-HJ-NP-Z2-9]{8})$/m.exec(readMail(mail.received[0]!).text)![1])
  const session = secret('session', ana.session)
  const key = secret('key', ana.key)
  await send('api', 'GET /v2/users/me', { as: key })
  await send('api', 'GET /v2/account/authorize', { as: session }, 'refused')
  await send('api', 'GET /v2/users/me', { as: `${ana.id}-${secret('wrong key')}` }, 'refused')
  for (const name of ['cookie', 'x-api-key', 'proxy-authorization', 'x-forwarded-for', 'referer'])
    await send('api', 'GET /v2/apps/x', { as: key, headers: { [name]: `a=${secret(name)}` } }, 'refused')
  await send('api', `GET /v2/users/me?key=${secret('query')}`, { as: `${secret('basic')}` }, 'refused')
  await send('api', `POST /v2/account/sign-in/code`, { body: json({ email, code: secret('wrong code') }) }, 'refused')

  // Applications: variables, files, archives, tokens of git providers.
  const app = await platform.deploy(ana, nodeProgram(content('program')))
  t.is(app.operation.state, 'success')
  const path = `/v2/apps/${app.id}`
  await send('api', `PUT ${path}/envs`, { as: key, body: json({ envs: { SECRET: secret('variable') } }) })
  await send(
    'api',
    `PUT ${path}/envs`,
    { as: key, body: json({ envs: { 'A B': secret('refused variable') } }) },
    'refused',
  )
  await send('api', `PUT ${path}/envs`, { as: key, body: `{"envs":{"A":"${secret('cut JSON')}` }, 'refused')
  await send('api', `POST ${path}/restart`, { as: key })
  const archive = (files: Record<string, string>) => {
    const bytes = zipOf({ ...files, 'berth.app': json(configOf(nodeProgram(''))) })
    return formOf({ bytes, fileName: 'app.zip' })
  }
  await send('api', 'POST /v2/apps', { as: key, body: archive({ 'a.js': content('refused archive') }) }, 'refused')
  await send(
    'api',
    'POST /v2/apps',
    { as: key, body: formOf({ bytes: content('no archive'), fileName: 'a.zip' }) },
    'refused',
  )
  await send('api', `PUT ${path}/files`, {
    as: key,
    body: json({ path: `${content('file')}.txt`, content: content('content') }),
  })
  await send(
    'api',
    `PUT ${path}/files`,
    { as: key, body: json({ path: '../x', content: content('refused') }) },
    'refused',
  )
  const signing = secret('signing')
  const link = (token: string) =>
    send('api', `POST ${path}/deploy/webhook`, { as: key, body: json({ access_token: token, secret: signing }) })
  await send(
    'api',
    `POST ${path}/deploy/webhook`,
    { as: key, body: json({ access_token: `${secret('refused token')}\u0001` }) },
    'refused',
  )

  const repository = await git.repository({ private: true })
  const { commit } = await repository.push(nodeProgram('pushed').files)
  const push = async (token: string) => {
    const hook = new URL(response(await link(token)).webhook).pathname
    secret('address', hook.split('/').at(-1))
    const { headers, body } = pushEvent('gitlab', {
      ...{ cloneUrl: repository.url, ref: 'refs/heads/main', before: 'a'.repeat(40), after: commit },
      secret: signing,
    })
    const seen = await send('api', `POST ${hook}`, { headers, body })
    const id = /deployment ([0-9a-f]{32})/.exec(seen.body)?.[1]
    const row = await db('deployments').where({ id }).first()
    t.truthy(row, seen.body)
    return platform.ended(row.operation_id)
  }
  t.is((await push(secret('git token', git.token))).state, 'success')
  t.is((await push(secret('wrong git token'))).state, 'error')

  // Blob storage: names, bytes, passwords, tokens, addresses that hold a right.
  const object = response(
    await send('blob', `POST /v1/objects?private=true&name=${content('object')}`, {
      as: key,
      body: formOf({ bytes: content('bytes').repeat(1000) }),
    }),
  ).id
  await send(
    'blob',
    'POST /v1/objects?name=a%20b',
    { as: key, body: formOf({ bytes: content('refused bytes') }) },
    'refused',
  )
  const upload = response(await send('blob', 'POST /v1/upload-tokens', { as: key, body: '{}' })).token
  secret('upload token', upload)
  await send('blob', 'POST /v1/objects', { as: upload, body: formOf({ bytes: 'x' }) })
  await send('blob', 'POST /v1/objects', { as: upload, body: formOf({ bytes: 'x' }) }, 'refused')
  secret('pair', response(await send('blob', 'GET /v1/s3/credentials', { as: key })).secret_access_key)
  const signed = new URL(
    response(await send('blob', `GET /v1/objects/download?object=${object}&redirect=false`, { as: key })).url,
  )
  secret('link', signed.pathname + signed.search)
  await send('files', `GET ${signed.pathname}${signed.search}`)
  const share = response(
    await send('blob', 'POST /v1/shares', { as: key, body: json({ object, password: secret('password') }) }),
  )
  const visit = (password: string, refused?: 'refused') =>
    send('files', `POST ${new URL(share.url).pathname}`, { body: new URLSearchParams({ password }) }, refused)
  await visit(secret('wrong password'), 'refused')
  await send(
    'blob',
    'POST /v1/shares',
    { as: key, body: json({ object: 'x', password: secret('refused password') }) },
    'refused',
  )

  // Language models: what is said is nowhere, also where it was refused or broke off.
  secret('model key', modelKey)
  const chat = async (body: object, refused?: 'refused') => {
    const { key } = await api.makeUser({ plan: 'enterprise-24' })
    return send('api', 'POST /v2/ai/chat/completions', { as: key, body: json(body) }, refused)
  }
  const conversation = () => ({ messages: [{ role: 'user', content: secret('message') }] })
  model.next({ text: secret('completion'), toolCalls: [toolCall('f', { a: secret('argument') })] })
  await chat({ ...conversation(), tools: [{ type: 'function', function: { name: 'f', description: secret('tool') } }] })
  t.is(model.requests[0]!.headers.authorization, `Bearer ${modelKey}`)
  for (const status of [400, 401, 500]) {
    model.next({ status, body: json({ error: { message: `${secret('error of the model')} ${modelKey}` } }) })
    await chat(conversation(), 'refused')
  }
  model.next({ text: [secret('broken completion'), 'x'], cutAfter: 3 })
  await chat(conversation(), 'refused')
  await chat({ messages: [{ role: secret('refused role'), content: secret('refused message') }] }, 'refused')

  // The proxy logs why an upstream is missing, but not the request.
  await send(
    's3',
    `GET /a?X-Amz-Signature=${secret('signature')}`,
    { headers: { authorization: secret('s3') } },
    'refused',
  )

  await front.edge.setRoute({ host: 'nobody.example.org', appId: app.id, address: '127.0.0.1', port: 1 })
  t.is((await ask(front.port, 'nobody.example.org')).status, 502)

  const audit = await send('api', 'GET /v2/account/audit', { as: key })
  const history = await historyOf(platform.base.config, app.id)
  const access = await front.accessLog(30)
  const sources: Record<string, string> = {
    'the logs of api, worker and host': sink.text(),
    'a history': history,
    'the audit record': audit.body,
    'a refusal': refusals.map(({ body, headers }) => body + json(headers)).join('\n'),
    'the access log': json(access),
    'the error log of the proxy': front.errors() + front.applicationErrors(),
    'a command line': commandLines(),
  }
  t.true(
    sink.text().includes(app.id) && history.includes(app.id) && audit.body.includes(app.id),
    'there is something to search',
  )
  t.true(refusals.length > 15 && access.length > 30)
  t.regex(front.applicationErrors(), /nobody\.example\.org/, 'the log of errors is read')
  const leaks = new Set<string>()
  for (const [name, planted] of [...secrets, ...contents]) {
    const holds = searchFor([planted])
    for (const [source, text] of Object.entries(sources)) if (holds(text)) leaks.add(`${name}: ${source}`)
  }
  const tables = Object.entries(await tableTexts(db))
  for (const [name, planted] of secrets) {
    const holds = searchFor([planted])
    for (const [table, text] of tables) if (holds(text)) leaks.add(`${name}: ${table}`)
  }
  for (const file of filesWith(platform.base.folder, searchFor([...secrets.values()]))) leaks.add(file)
  t.deepEqual([...leaks], ['object: the audit record'], 'the record names the objects that were changed')
})
