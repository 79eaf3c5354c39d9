import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { chainName } from '../../activities/containers/network-names.ts'
import { labels } from '../../activities/containers/port.ts'
import { listApps, uploadArchive } from '../../cli/client/client.ts'
import { followApp } from '../../cli/client/follow-app.ts'
import { openDatabase } from '../../db/database.ts'
import { listHosts } from '../../db/hosts/hosts.ts'
import { currentRole } from '../../db/process-role.ts'
import { startTicks } from '../../lib/process-stat.ts'
import { readRecord } from '../../workers/supervisor/process-record.ts'
import { probe } from '../kit/actors/prober.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { startBerth } from '../kit/command.ts'
import { bareEngine } from '../kit/hosts/host-remains.ts'
import {
  answering,
  call,
  type Info,
  processNames as names,
  page,
  targetOf,
  testInstallation,
} from '../kit/platform/installation.ts'
import { demandRoot } from '../kit/root.ts'
import { isLoopback, listeningSockets } from '../kit/servers/listening-sockets.ts'

// One platform from its first start to its last stop: the steps build on each other, so they run one after the other.

const platform = testInstallation()
const { info, processes, run } = platform
const infoKeys = [
  ...[
    'base_url',
    'blob_url',
    's3_url',
    'files_url',
    'public_url',
    'edge_url',
    'ai_url',
    'apps_domain',
    'database_types',
    'api_key',
    'session_token',
  ],
  ...['user_id', 'temporal_address', 'temporal_ui_url', 'database_url', 'data_dir'],
]

async function hostsOf(known: Info) {
  const db = openDatabase({ url: known.database_url as string, pool: 1 })
  return listHosts(db).finally(() => db.destroy())
}

/** Its keys, as the database has them. */
async function keysOf(known: Info): Promise<unknown[]> {
  const db = openDatabase({ url: known.database_url as string, pool: 1 })
  const rows = db('api_keys').orderBy('id').select('id', 'hash', 'revoked_at')
  return rows.finally(() => db.destroy())
}

/** Its containers that run: since when, and where they answer. */
/** Without containers of the host itself, such as those that prepare data folders for databases. */
async function running() {
  const hostIds = readdirSync(join(platform.dataDir, 'hosts'))
  const listed = (await Promise.all(hostIds.map(id => bareEngine.list({ [labels.host]: id })))).flat()
  const found = await Promise.all(listed.map(({ name }) => bareEngine.inspect(name)))
  return found
    .flatMap(container => (container?.running && !container.name.startsWith('berth-template-') ? [container] : []))
    .map(({ name, startedAt, hostAddress, hostPort }) => ({ name, startedAt, hostAddress, hostPort }))
    .sort((a, b) => a.name.localeCompare(b.name))
}

test.serial('the first start ends with the example answering, and prints every address', async t => {
  t.timeout(600_000)
  const started = await run('up', '--detach')
  t.is(started.code, 0, started.stderr)
  t.regex(started.stdout, /Berth is up\./)
  t.regex(started.stdout, /curl -H "Authorization: \d{18}-/)
  t.regex(started.stdout, /Protection quota\s+\S/)
  t.notRegex(started.stderr, /did not start/)

  const known = await info()
  t.deepEqual(Object.keys(known), infoKeys)
  t.deepEqual(
    Object.entries(known).filter(([, value]) => !value),
    [],
  )
  const db = openDatabase({ url: known.database_url as string, pool: 1 })
  const role = await currentRole(db).finally(() => db.destroy())
  t.like(role, { superuser: false, owner: false }, 'the processes may change rows only')
  t.regex(await page(known, `hello.${known.apps_domain}`), /^200 .*Your first application is up/s)
  t.deepEqual(
    (await processes()).map(({ name }) => name),
    names,
  )
  for (const { pid } of await processes()) t.not(startTicks(pid), null)
  for (const name of names) t.notThrows(() => readFileSync(join(platform.dataDir, 'logs', `${name}.log`)))
})

test.serial('every listener is on loopback', async t => {
  const known = await info()
  const supervisor = readRecord(join(platform.dataDir, 'run'), 'supervisor')!
  const sockets = listeningSockets([supervisor.pid, ...(await processes()).map(({ pid }) => pid)])
  const addresses = Object.entries(known).filter(([name]) => /_(url|address)$/.test(name))
  t.is(addresses.length, 10)
  for (const [name, value] of addresses) {
    const port = Number(/:(\d+)(\/|$)/.exec(value)?.[1])
    t.true(
      sockets.some(socket => socket.port === port),
      `${name} is seen`,
    )
  }
  t.deepEqual(
    sockets.filter(socket => !isLoopback(socket)),
    [],
  )
  const published = (await running()).map(({ hostAddress }) => hostAddress)
  t.is(published.length, 1)
  t.regex(published[0] ?? '', /^127\./)
})

test.serial('info shows the password of the database only on request', async t => {
  const { database_url: url } = await info()
  const { password } = new URL(url!)
  t.true(password.length > 8)
  const shown = await run('info')
  t.regex(shown.stdout, /^database_url +postgres:\/\/\w+:\*\*\*@127\.0\.0\.1:\d+\/berth$/m)
  t.false(shown.stdout.includes(password))
  t.true((await run('info', '--show-secrets')).stdout.includes(url!))
})

test.serial('Postgres confirms a change only when it is on disk', async t => {
  const db = openDatabase({ url: (await info()).database_url as string, pool: 1 })
  t.teardown(() => db.destroy())
  for (const setting of ['fsync', 'synchronous_commit', 'full_page_writes'])
    t.is((await db.raw(`show ${setting}`)).rows[0][setting], 'on', setting)
})

test.serial('the doctor reports every part as healthy, and a frozen one', async t => {
  const known = await info()
  const { code, stdout } = await run('doctor')
  const isRoot = process.getuid?.() === 0
  for (const line of [
    /^ {3}processes +running: analytics, api, host, postgres, proxy, temporal, worker$/m,
    ...['database', 'temporal', 'temporal ui', 'api', 'proxy'].map(
      name => new RegExp(`^ {3}${name} +answers at 127`, 'm'),
    ),
    /^ {3}routes +1 in the proxy; every running application has its own$/m,
    /^ {3}stored segments +1 segment, .*; all present; no unreferenced file$/m,
    /^ {3}container host +answers$/m,
    ...(isRoot ? [/^ {3}Protection quota +enforced$/m, /^ {3}Protection firewall +on/m] : []),
    /^ {3}Protection disks +all present$/m,
  ])
    t.regex(stdout, line)
  t.is(code, /^!/m.test(stdout) ? 1 : 0)
  t.false(stdout.includes(String(known.api_key)))

  const { pid } = (await processes()).find(({ name }) => name === 'worker')!
  process.kill(pid, 'SIGSTOP')
  t.teardown(() => process.kill(pid, 'SIGCONT'))
  const reported = await run('doctor')
  t.is(reported.code, 1)
  t.regex(
    reported.stdout,
    new RegExp(`^! {2}processes +worker \\(${pid}\\) STOPPED.*\\n +-> continue: kill -CONT ${pid}$`, 'm'),
  )
})

test.serial('flushed firewall rules are restored', async t => {
  demandRoot()
  const [host] = await hostsOf(await info())
  const chain = `${chainName(host!.id)}-INPUT`
  const iptables = (...args: string[]) => execFileSync('iptables', ['-w', ...args]).toString()
  const before = iptables('-S', chain)
  t.regex(before, /-j REJECT/)
  iptables('-F', chain)
  await t.notThrowsAsync(comesTrue(() => iptables('-S', chain) === before))
})

test.serial('the command creates accounts and keys', async t => {
  const made = await run('users', 'create', '--email', 'e2e@example.com', '--name', 'E2E', '--plan', 'free', '--json')
  const user = JSON.parse(made.stdout) as Info
  t.deepEqual(Object.keys(user), ['user_id', 'key_id', 'api_key', 'session_token'])
  const key = await run(
    'keys',
    'create',
    '--user',
    user.user_id as string,
    '--scopes',
    'apps:read,account:read',
    '--json',
  )
  const known = await info()
  for (const credential of [user.api_key, user.session_token, JSON.parse(key.stdout).api_key]) {
    const me = await fetch(`${known.base_url}/v2/users/me`, { headers: { authorization: `Bearer ${credential}` } })
    t.is(me.status, 200)
  }
  const again = await run('users', 'create', '--email', 'e2e@example.com', '--name', 'E2E', '--plan', 'free')
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
      { example: 'hello-python', subdomain: 'e2e-postgres', kill: 'postgres', text: /Guest book/ },
      { example: 'hello-python', subdomain: 'e2e-temporal', kill: 'temporal', text: /Guest book/ },
    ]
    for (const { example, subdomain, kill, text } of cases) {
      const { app } = await uploadArchive(target, await platform.zipExample(example, subdomain))
      if (kill) await platform.backAgain(kill, platform.kill(kill))
      await followApp(target, app, { seconds: 90 })
      t.is(app.domain, `${subdomain}.${known.apps_domain}`)
      t.regex(await page(known, app.domain as string), text)
    }
  },
)

test.serial('deploy follows to the end, and fails with the reason of the failure', async t => {
  t.timeout(200_000)
  const good = await run('deploy', platform.copyExample('hello-node', { SUBDOMAIN: 'by-command' }))
  t.is(good.code, 0, good.stderr)
  t.regex(good.stdout, /answers at http:\/\/by-command\./)

  const refused = await run('deploy', platform.copyExample('hello-node', { SUBDOMAIN: 'greedy', MEMORY: '1' }))
  t.is(refused.code, 1)
  t.regex(refused.stderr, /INVALID_MEMORY/)

  const broken = platform.copyExample('hello-node', { SUBDOMAIN: 'broken' })
  writeFileSync(join(broken, 'server.js'), 'console.log("it ends here"); process.exit(7)\n')
  const failed = await run('deploy', broken)
  t.is(failed.code, 1)
  t.regex(failed.stderr, /HEALTH_CHECK_FAILED.*exit code 7/)
  t.regex(failed.stderr, /it ends here/)
})

for (const name of names) {
  test.serial(`a kill -9 of ${name} is repaired, and the application keeps answering`, async t => {
    const known = await info()
    const domain = `hello.${known.apps_domain}`
    const prober = probe(known.edge_url as string, domain)
    t.teardown(() => prober.stop())
    await sleep(200)
    t.log(`started again after ${await platform.backAgain(name, platform.kill(name))} ms`)
    await sleep(1000)
    const { asked, failures } = await prober.stop()
    t.true(asked > 10)
    // Applications are not children of Berth; only the proxy's own absence can be seen from outside.
    if (name !== 'proxy') t.deepEqual(failures, [])
    t.regex(await answering(known, domain, 5), /^200 /)
  })
}

test.serial('after all that, the platform still works', async t => {
  const known = await info()
  const hello = (await listApps(targetOf(known))).find(app => app.domain === `hello.${known.apps_domain}`)
  t.truthy(hello)
  const restarted = await call(targetOf(known), 'POST', `/v2/apps/${hello?.id}/restart`)
  t.is(restarted.status, 200, await restarted.text())
  t.regex(await answering(known, hello?.domain as string, 10), /^200 /)
})

test.serial('a second supervisor is refused, and prints the addresses of the first', async t => {
  const again = await run('up', '--detach')
  t.is(again.code, 0)
  t.regex(again.stderr, /already running/)
  t.regex(again.stdout, /Berth is up\./)
})

test.serial('a killed supervisor loses nothing: the next start cleans up and continues', async t => {
  const known = await info()
  const apps = await listApps(targetOf(known))
  platform.kill('supervisor')
  await sleep(300)
  const started = await run('up', '--detach')
  t.is(started.code, 0, started.stderr)
  const now = await info()
  t.is(now.api_key, known.api_key)
  t.is(now.base_url, known.base_url)
  t.deepEqual(await listApps(targetOf(now)), apps)
})

test.serial('down leaves applications running; the second start keeps everything', async t => {
  const known = await info()
  const domain = `hello.${known.apps_domain}`
  const { session_token: _, ...kept } = known // each call creates a new one
  const [apps, keys, containers] = [await listApps(targetOf(known)), await keysOf(known), await running()]
  const pids = (await processes()).map(({ pid }) => pid)
  const down = await run('down')
  t.is(down.code, 0)
  t.deepEqual(await processes(), [])
  for (const pid of pids) t.is(startTicks(pid), null)
  t.true(containers.length > 3)
  t.deepEqual(await running(), containers)

  const since = Date.now()
  const started = await run('up', '--detach')
  const tookMs = Date.now() - since
  t.is(started.code, 0, started.stderr)
  t.log(`second start: ${tookMs} ms`)
  t.regex(await page(known, domain), /^200 /)
  const now = await info()
  t.like(now, kept)
  t.deepEqual(await listApps(targetOf(now)), apps)
  t.deepEqual(await keysOf(now), keys)
  t.deepEqual(await running(), containers)
})

test.serial('down --apps stops applications too, and the next start brings them back', async t => {
  const known = await info()
  const apps = (await listApps(targetOf(known))).filter(({ domain }) => domain && !domain.startsWith('broken.'))
  const down = await run('down', '--apps')
  t.regex(down.stdout, new RegExp(`Stopped ${apps.length} application container`))
  t.is((await run('up', '--detach')).code, 0)
  for (const { domain } of apps) t.regex(await answering(known, domain as string, 20), /^200 /)
})

test.serial('a further host joins with one command, and leaves on Ctrl-C', async t => {
  const second = startBerth(['host', '--name', 'e2e-second', '--memory', '1024'], platform.env)
  t.teardown(() => second.kill('SIGKILL'))
  await second.says(/The host e2e-second has joined/)
  const rows = await hostsOf(await info())
  t.true(rows.some(row => row.id === 'e2e-second' && row.reachable && row.memory_mb === 1024))
  t.is(await second.end('SIGINT'), 0)
  const after = await hostsOf(await info())
  t.false(after.some(row => row.id === 'e2e-second' && row.reachable))
})
