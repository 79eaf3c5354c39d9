import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { archiveFolder } from '../../cli/archive-folder.ts'
import { listApps, type Target, uploadArchive } from '../../cli/client.ts'
import { followApp } from '../../cli/follow-app.ts'
import { isAlive, readRecord, startTicks } from '../../workers/process-record.ts'
import { berth, checkout } from '../kit/command.ts'
import { probe } from '../kit/prober.ts'

// One platform from its first start to its last stop: the steps build on each other, so they run one after the other.

const folder = mkdtempSync(join(tmpdir(), 'berth-e2e-'))
chmodSync(folder, 0o711)
const dataDir = join(folder, 'data')
const env = { BERTH_DATA: dataDir, RATE_LIMIT_SCALE: '1000' }
const names = ['api', 'host', 'postgres', 'proxy', 'temporal', 'worker']
const infoKeys = [
  ...[
    'base_url',
    'blob_url',
    's3_url',
    'files_url',
    'public_url',
    'edge_url',
    'apps_domain',
    'api_key',
    'session_token',
  ],
  ...['user_id', 'temporal_address', 'temporal_ui_url', 'database_url', 'data_dir'],
]

type Info = Record<string, string>
const info = async (): Promise<Info> => JSON.parse((await berth(['info', '--json'], env)).stdout)
const processes = async (): Promise<{ name: string; pid: number }[]> =>
  JSON.parse((await berth(['ps', '--json'], env)).stdout)
const targetOf = (known: Info): Target => ({
  baseUrl: known.base_url as string,
  apiKey: known.api_key as string,
  edgeUrl: known.edge_url as string,
})
const record = (name: string) => readRecord(join(dataDir, 'run'), name)

function killNow(name: string): number {
  const { pid } = record(name)!
  process.kill(pid, 'SIGKILL')
  return pid
}

async function backAgain(name: string, killed: number): Promise<number> {
  const since = Date.now()
  while (Date.now() - since < 10_000) {
    const now = record(name)
    if (now && now.pid !== killed && isAlive(now)) return Date.now() - since
    await sleep(20)
  }
  throw new Error(`${name} was not started again`)
}

/** A copy of an example under another name, zipped. */
async function zipExample(example: string, subdomain: string): Promise<string> {
  const copy = join(folder, subdomain)
  cpSync(join(checkout, 'examples', example), copy, { recursive: true })
  const path = join(copy, 'berth.app')
  writeFileSync(path, readFileSync(path, 'utf8').replace(/SUBDOMAIN=.*/, `SUBDOMAIN=${subdomain}`))
  const zip = join(folder, `${subdomain}.zip`)
  await archiveFolder(copy, zip)
  return zip
}

function page(known: Info, domain: string): Promise<string> {
  const url = new URL(known.edge_url as string)
  return new Promise((resolve, reject) => {
    const asked = request(
      { host: url.hostname, port: url.port, headers: { host: domain }, timeout: 10_000 },
      answer => {
        let text = ''
        answer.setEncoding('utf8').on('data', part => {
          text += part
        })
        answer.once('end', () => resolve(`${answer.statusCode} ${text}`))
      },
    )
    asked.once('error', reject)
    asked.end()
  })
}

/** The page once the proxy gives it. */
async function answering(known: Info, domain: string, seconds: number): Promise<string> {
  for (const deadline = Date.now() + seconds * 1000; ; await sleep(20)) {
    const text = await page(known, domain).catch(String)
    if (text.startsWith('200') || Date.now() > deadline) return text
  }
}

test.after.always('take the platform away', async () => {
  const target = await info().then(targetOf, () => null)
  const apps = target ? await listApps(target).catch(() => []) : []
  for (const { id } of apps)
    await fetch(`${target?.baseUrl}/v2/apps/${id}`, {
      method: 'DELETE',
      headers: { authorization: target?.apiKey ?? '' },
    })
  await berth(['down', '--apps'], env)
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
})

test.serial('the first start ends with the example answering, and says where everything is', async t => {
  t.timeout(600_000)
  const started = await berth(['up', '--detach'], env, 600)
  t.is(started.code, 0, started.stderr)
  t.regex(started.stdout, /Berth is up\./)
  t.regex(started.stdout, /curl -H "Authorization: \d{18}-/)
  t.regex(started.stdout, /Protections\s+\S/)
  t.notRegex(started.stderr, /did not come up/)

  const known = await info()
  t.deepEqual(Object.keys(known), infoKeys)
  t.deepEqual(
    Object.entries(known).filter(([, value]) => !value),
    [],
  )
  t.regex(await page(known, `hello.${known.apps_domain}`), /^200 .*Your first application is up/s)
  t.deepEqual(
    (await processes()).map(({ name }) => name),
    names,
  )
  for (const { pid } of await processes()) t.not(startTicks(pid), null)
  for (const name of names) t.notThrows(() => readFileSync(join(dataDir, 'logs', `${name}.log`)))
})

test.serial('accounts and keys are made by the command', async t => {
  const made = await berth(
    ['users', 'create', '--email', 'e2e@example.com', '--name', 'E2E', '--plan', 'free', '--json'],
    env,
  )
  const user = JSON.parse(made.stdout) as Info
  t.deepEqual(Object.keys(user), ['user_id', 'api_key', 'session_token'])
  const key = await berth(
    ['keys', 'create', '--user', user.user_id as string, '--scopes', 'apps:read,account:read', '--json'],
    env,
  )
  const known = await info()
  for (const credential of [user.api_key, user.session_token, JSON.parse(key.stdout).api_key]) {
    const me = await fetch(`${known.base_url}/v2/users/me`, { headers: { authorization: `Bearer ${credential}` } })
    t.is(me.status, 200)
  }
  const again = await berth(['users', 'create', '--email', 'e2e@example.com', '--name', 'E2E', '--plan', 'free'], env)
  t.is(again.code, 1)
  t.regex(again.stderr, /already/)
})

test.serial(
  'an uploaded zip of each runtime answers, also when a process is killed right after the answer',
  async t => {
    t.timeout(300_000)
    const known = await info()
    const target = targetOf(known)
    const cases = [
      { example: 'hello-node', subdomain: 'e2e-node', kill: null, text: /Your first application is up/ },
      { example: 'hello-python', subdomain: 'e2e-python', kill: 'host', text: /Guest book/ },
      { example: 'hello-static', subdomain: 'e2e-static', kill: 'worker', text: /Just files/ },
    ]
    for (const { example, subdomain, kill, text } of cases) {
      const { app } = await uploadArchive(target, await zipExample(example, subdomain))
      if (kill) await backAgain(kill, killNow(kill))
      await followApp(target, app, 90)
      t.is(app.domain, `${subdomain}.${known.apps_domain}`)
      t.regex(await page(known, app.domain as string), text)
    }
  },
)

test.serial('deploy follows to the end, and fails with the reason', async t => {
  t.timeout(200_000)
  const copy = join(folder, 'by-command')
  cpSync(join(checkout, 'examples/hello-node'), copy, { recursive: true })
  writeFileSync(
    join(copy, 'berth.app'),
    'DISPLAY_NAME=Command\nMAIN=server.js\nMEMORY=512\nVERSION=recommended\nSUBDOMAIN=by-command\n',
  )
  const good = await berth(['deploy', copy], env)
  t.is(good.code, 0, good.stderr)
  t.regex(good.stdout, /answers at http:\/\/by-command\./)

  writeFileSync(join(copy, 'berth.app'), 'DISPLAY_NAME=Command\nMAIN=server.js\nMEMORY=1\nVERSION=recommended\n')
  const refused = await berth(['deploy', copy], env)
  t.is(refused.code, 1)
  t.regex(refused.stderr, /INVALID_MEMORY/)

  writeFileSync(
    join(copy, 'berth.app'),
    'DISPLAY_NAME=Broken\nMAIN=server.js\nMEMORY=512\nVERSION=recommended\nSUBDOMAIN=broken\n',
  )
  writeFileSync(join(copy, 'server.js'), 'console.log("it ends here"); process.exit(7)\n')
  const failed = await berth(['deploy', copy], env)
  t.is(failed.code, 1)
  t.regex(failed.stderr, /HEALTH_CHECK_FAILED.*exit code 7/)
  t.regex(failed.stderr, /it ends here/)
})

for (const name of names) {
  test.serial(`a kill -9 of ${name} is healed, and the application keeps answering`, async t => {
    const known = await info()
    const domain = `hello.${known.apps_domain}`
    const prober = probe(known.edge_url as string, domain)
    t.teardown(() => prober.stop())
    await sleep(200)
    const healedMs = await backAgain(name, killNow(name))
    await sleep(1000)
    const { asked, failures } = await prober.stop()
    t.true(healedMs < 2000, `it took ${healedMs} ms`)
    t.true(asked > 10)
    // Applications are nobody's children; only the proxy's own absence can be seen from outside.
    if (name !== 'proxy') t.deepEqual(failures, [])
    t.regex(await answering(known, domain, 5), /^200 /)
  })
}

test.serial('after all that, the platform still does its work', async t => {
  const known = await info()
  const hello = (await listApps(targetOf(known))).find(app => app.domain === `hello.${known.apps_domain}`)
  t.truthy(hello)
  const restarted = await fetch(`${known.base_url}/v2/apps/${hello?.id}/restart`, {
    method: 'POST',
    headers: { authorization: known.api_key as string },
  })
  t.is(restarted.status, 200, await restarted.text())
  t.regex(await page(known, hello?.domain as string), /^200 /)
})

test.serial('a second supervisor is refused, and says where the first one answers', async t => {
  const again = await berth(['up', '--detach'], env)
  t.is(again.code, 0)
  t.regex(again.stderr, /running already/)
  t.regex(again.stdout, /Berth is up\./)
})

test.serial('the killed supervisor takes nothing with it that lasts: the next start clears up and goes on', async t => {
  const known = await info()
  const apps = await listApps(targetOf(known))
  killNow('supervisor')
  await sleep(300)
  const started = await berth(['up', '--detach'], env)
  t.is(started.code, 0, started.stderr)
  const now = await info()
  t.is(now.api_key, known.api_key)
  t.is(now.base_url, known.base_url)
  t.deepEqual(await listApps(targetOf(now)), apps)
})

test.serial('down leaves applications running; the second start is quick and keeps everything', async t => {
  const known = await info()
  const domain = `hello.${known.apps_domain}`
  const apps = await listApps(targetOf(known))
  const pids = (await processes()).map(({ pid }) => pid)
  const down = await berth(['down'], env)
  t.is(down.code, 0)
  t.deepEqual(await processes(), [])
  for (const pid of pids) t.is(startTicks(pid), null)

  const since = Date.now()
  const started = await berth(['up', '--detach'], env)
  const tookMs = Date.now() - since
  t.is(started.code, 0, started.stderr)
  t.true(tookMs < 10_000, `the second start took ${tookMs} ms`)
  t.log(`second start: ${tookMs} ms`)
  t.regex(await page(known, domain), /^200 /)
  t.deepEqual(await listApps(targetOf(await info())), apps)
})
