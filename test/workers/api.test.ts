import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import type { StatusReport } from '../../api/status/service-status.ts'
import { unusedPort } from '../../cli/installation/ports.ts'
import { createKey, createSession, createUser } from '../../db/accounts/accounts.ts'
import { masterKey } from '../kit/actors/api.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { GitProviderServer } from '../kit/git/git-provider.ts'
import { health } from '../kit/platform/health.ts'
import { productArguments } from '../kit/product.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()
const [loader, program] = productArguments('workers/api') as [string, string]
// All belong to one database, which knows its object store.
const objects = mkdtempSync(join(tmpdir(), 'berth-api-objects-'))
test.after.always(() => rmSync(objects, { recursive: true, force: true }))
const surfaces = ['API_PORT', 'BLOB_PORT', 'S3_PORT', 'FILES_PORT', 'PUBLIC_PORT']

interface Started {
  child: ChildProcess
  ports: Record<string, number>
  output: () => string
}

async function start(t: ExecutionContext, env: Record<string, string> = {}): Promise<Started> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-api-'))
  const ports = Object.fromEntries(await Promise.all(surfaces.map(async name => [name, await unusedPort()])))
  const child = fork(program, {
    execArgv: [loader],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: (await database).url,
      BERTH_MASTER_KEY: masterKey,
      BERTH_DATA: folder,
      OBJECT_STORE_FOLDER: objects,
      TEMPORAL_ADDRESS: '127.0.0.1:1',
      ...Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)])),
      ...env,
    },
  })
  let text = ''
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', chunk => (text += chunk))
  t.teardown(async () => {
    child.kill('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  })
  const first = await Promise.race([
    once(child, 'message').then(([message]) => message),
    once(child, 'exit').then(([code]) => `exit ${code}`),
  ])
  t.deepEqual(first, { ready: true }, text)
  return { child, ports, output: () => text }
}

test('the API listens on five ports, reports that, serves, and drains on SIGTERM', async t => {
  const { child, ports, output } = await start(t)
  t.is(await (await fetch(`http://127.0.0.1:${ports.PUBLIC_PORT}/pub/status`)).text(), 'OK')
  // The S3 gateway tells nobody what is there without a signature.
  for (const name of surfaces)
    t.is((await fetch(`http://127.0.0.1:${ports[name]}/`)).status, name === 'S3_PORT' ? 403 : 404, name)
  const { db } = await database
  const user = await createUser(db, { name: 'Ana', email: 'ana@example.org', plan: 'hobby-1' })
  const { key } = await createKey(db, masterKey, { userId: user.id })
  const me = await fetch(`http://127.0.0.1:${ports.API_PORT}/v2/users/me`, { headers: { authorization: key } })
  t.is(me.status, 200)

  const status = (await (
    await fetch(`http://127.0.0.1:${ports.API_PORT}/v2/service/status`)
  ).json()) as Required<StatusReport>
  t.is(status.status, 'degraded')
  t.is(status.dependencies.database?.status, 'operational')
  t.is(status.dependencies.storage?.status, 'operational')
  t.is(status.dependencies.workflows?.status, 'outage')
  t.is(status.services.applications?.status, 'unknown', 'there are no hosts')

  const startedAt = performance.now()
  child.kill('SIGTERM')
  const [code] = await once(child, 'exit')
  t.is(code, 0)
  t.true(performance.now() - startedAt < 5000)
  t.false(output().includes(key), 'no secret in the log')
  for (const line of output().trim().split('\n')) t.notThrows(() => JSON.parse(line), line)
})

test('an API started while the object store is down serves, and refuses only what needs the store', async t => {
  const away = { OBJECT_STORE: 's3', S3_STORE_ENDPOINT: 'http://127.0.0.1:1' }
  const keys = { S3_STORE_ACCESS_KEY_ID: 'id', S3_STORE_SECRET_ACCESS_KEY: 'secret' }
  const { ports } = await start(t, { ...away, ...keys })
  const { db } = await database
  const user = await createUser(db, { name: 'Eve', email: 'eve@example.org', plan: 'enterprise-32' })
  const { key: authorization } = await createKey(db, masterKey, { userId: user.id })
  const me = await fetch(`http://127.0.0.1:${ports.API_PORT}/v2/users/me`, { headers: { authorization } })
  t.is(me.status, 200)
  const body = new FormData()
  body.append('file', new Blob([new Uint8Array(100_000)]), 'a.bin')
  const upload = await fetch(`http://127.0.0.1:${ports.BLOB_PORT}/v1/objects`, {
    method: 'POST',
    headers: { authorization },
    body,
  })
  t.is(upload.status, 503)
})

test.serial('a request in progress at SIGTERM is answered; new ones are refused', async t => {
  const { child, ports } = await start(t)
  const { db } = await database
  const body = '{"client_id":"under-way"}'
  const socket = connect(Number(ports.API_PORT), '127.0.0.1')
  let text = ''
  socket.on('data', piece => (text += piece))
  socket.write(
    `POST /v2/account/authorize/start HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
  )
  // Its limit is counted before its body is read.
  await comesTrue(async () => (await db('rate_limits').whereLike('key', 'account.authorize.start/%')).length > 0)
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  await comesTrue(() => isClosed(Number(ports.API_PORT)))
  socket.write(body)
  const [code] = await exited
  t.is(code, 0)
  t.regex(text, /^HTTP\/1\.1 400 [\s\S]*"code":"INVALID_/)
})

/** Whether nothing listens there any more. */
const isClosed = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(false)
    })
    socket.on('error', () => resolve(true))
  })

test('every surface reached by https, and no other, tells browsers to stay with https', async t => {
  const { ports } = await start(t, { BASE_URL: 'https://api.berth.test', FILES_URL: 'https://files.berth.test' })
  const actual = await Promise.all(
    surfaces.map(async name => {
      const { headers } = await fetch(`http://127.0.0.1:${ports[name]}/v2/service/status`)
      return headers.get('strict-transport-security')
    }),
  )
  t.deepEqual(actual, ['max-age=31536000', null, null, 'max-age=31536000', null])
})

test('the API is reported as healthy, exits when its supervisor has ended, and refuses to start without its secret', async t => {
  const { child, ports } = await start(t)
  const own = { PUBLIC_PORT: String(ports.PUBLIC_PORT) }
  t.deepEqual(await health('api', own), { code: 0, words: '' })
  child.disconnect()
  const [code] = await once(child, 'exit')
  t.is(code, 0)
  t.is((await health('api', own)).code, 1)
  const folder = await mkdtemp(join(tmpdir(), 'berth-api-'))
  const bare = fork(program, {
    execArgv: [loader],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { PATH: process.env.PATH, BERTH_DATA: folder },
  })
  const [failed] = await once(bare, 'exit')
  await rm(folder, { recursive: true, force: true })
  t.not(failed, 0)
})

test('two processes share the ports', async t => {
  const { child, ports } = await start(t, { API_PROCESSES: '2' })
  const answers = await Promise.all(
    Array.from({ length: 10 }, () =>
      fetch(`http://127.0.0.1:${ports.PUBLIC_PORT}/pub/status`, { headers: { connection: 'close' } }),
    ),
  )
  t.true(answers.every(answer => answer.status === 200))
  child.kill('SIGTERM')
  const [code] = await once(child, 'exit')
  t.is(code, 0)
})

test.serial('when one of several processes dies another is started', async t => {
  const { child, ports } = await start(t, { API_PROCESSES: '2' })
  const processes = async () => {
    const lists = await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
    const pids = lists.trim().split(' ')
    const commands = await Promise.all(pids.map(pid => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
    return pids.filter((_, n) => commands[n]!.includes(program))
  }
  const before = await processes()
  t.is(before.length, 2)
  process.kill(Number(before[0]), 'SIGKILL')
  await comesTrue(async () => {
    const now = await processes()
    return now.length === 2 && !now.includes(before[0]!)
  })
  // The one that was killed may have accepted a connection that its end leaves without an answer.
  const ask = () =>
    fetch(`http://127.0.0.1:${ports.PUBLIC_PORT}/pub/status`, {
      headers: { connection: 'close' },
      signal: AbortSignal.timeout(5000),
    })
  await comesTrue(async () => (await ask().catch(() => null))?.status === 200)
  // The other one ends too: no earlier process is left to answer.
  process.kill(Number(before[1]), 'SIGKILL')
  await comesTrue(async () => (await processes()).length === 2 && !(await processes()).includes(before[1]!))
  await comesTrue(async () => (await ask().catch(() => null))?.status === 200)
  child.kill('SIGTERM')
  const [code] = await once(child, 'exit')
  t.is(code, 0)
})

test('with the settings of a git provider the process redirects people there', async t => {
  const provider = await GitProviderServer.start()
  t.teardown(() => provider.stop())
  const { settings } = provider
  const { ports, output } = await start(t, {
    GIT_PROVIDER_API_URL: settings.apiUrl,
    GIT_PROVIDER_WEB_URL: settings.webUrl,
    GIT_PROVIDER_APP_ID: settings.appId,
    GIT_PROVIDER_APP_SLUG: settings.appSlug,
    GIT_PROVIDER_PRIVATE_KEY: settings.privateKey,
    GIT_PROVIDER_WEBHOOK_SECRET: settings.webhookSecret,
    GIT_PROVIDER_CLIENT_ID: settings.clientId,
    GIT_PROVIDER_CLIENT_SECRET: settings.clientSecret,
  })
  const { db } = await database
  const user = await createUser(db, { name: 'Eva', email: 'eva@example.org', plan: 'hobby-1' })
  const { token } = await createSession(db, masterKey, { userId: user.id, lifeSeconds: 60 })
  const answer = await fetch(`http://127.0.0.1:${ports.API_PORT}/git/connect`, {
    headers: { authorization: token },
    redirect: 'manual',
  })
  t.is(answer.status, 302)
  t.true(answer.headers.get('location')?.startsWith(`${provider.url}/apps/berth-test/installations/new?state=`))
  for (const secret of [settings.clientSecret, settings.webhookSecret, 'PRIVATE KEY', token])
    t.false(output().includes(secret))
})
