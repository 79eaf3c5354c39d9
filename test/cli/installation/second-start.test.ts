import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import test from 'ava'
import { mustBeOwn } from '../../../cli/installation/folder-owner.ts'
import { openDataPlace, ownDataDir } from '../../../cli/installation/installation.ts'
import { phaseOf, startPhase } from '../../../cli/installation/start-phase.ts'
import { startReport } from '../../../cli/installation/start-report.ts'
import { removeUnfinished } from '../../../cli/services/temporal-binary.ts'
import { lockSupervisor } from '../../../workers/supervisor/supervisor-lock.ts'
import { operatorCommand } from '../../kit/actors/operator-command.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { checkout } from '../../kit/command.ts'
import { ownFolder } from '../../kit/folders.ts'
import { productArguments } from '../../kit/product.ts'
import { demandRoot } from '../../kit/root.ts'

const quiet = { write: () => true }

test('a second start reports what the first does, and exits with 1', async t => {
  const folder = ownFolder(t)
  const release = await lockSupervisor(join(folder, 'run'))
  t.teardown(release)
  const { say, done } = startReport({ connected: false, stdout: quiet, stderr: quiet }, startPhase(join(folder, 'run')))
  say('Creating the Postgres cluster')
  for (const options of [[], ['--detach']]) {
    const second = await operatorCommand({ BERTH_DATA: folder }, 'up', ...options)
    t.is(second.code, 1)
    t.is(
      second.stderr,
      `Process ${process.pid} is already starting Berth: Creating the Postgres cluster\nWait until it is up, then see: berth info\n`,
    )
    t.is(second.stdout, '')
  }
  done('it is up')
  t.is(phaseOf(join(folder, 'run')), null, 'from here on a second start shows the summary')
  say('proxy has ended; starting it again')
  t.is(phaseOf(join(folder, 'run')), null, 'whatever is reported later')
})

test('the next start removes what a killed one left in the cache, and keeps what is being built', t => {
  const folder = ownFolder(t)
  for (const name of [
    'bin',
    `temporal-${process.pid}-ab`,
    'temporal-4194305-cd',
    's3-programs-4194305-ef',
    'openai-client-4194305-ab',
    'toy-model-4194305-ab',
    'toy-library-4194305-cd',
    'temporal-old',
  ])
    mkdirSync(join(folder, name))
  removeUnfinished(folder)
  t.deepEqual(readdirSync(folder).sort(), ['bin', `temporal-${process.pid}-ab`, 'temporal-old'])
})

test('data of another user are reported with both users and what to do', t => {
  t.throws(() => mustBeOwn('/srv/data', 65534, 1), {
    message:
      'The data folder /srv/data belongs to daemon, and this command runs as nobody. Run it as daemon, or set BERTH_DATA to a folder of your own.',
  })
  t.throws(() => mustBeOwn('/srv/data', 65534, 4_000_000), { message: /belongs to the user with the id 4000000/ })
  for (const [me, owner] of [
    [0, 1],
    [1, 1],
    [1, undefined],
  ] as const)
    t.notThrows(() => mustBeOwn('/srv/data', me, owner))
})

/** Runs one call without root's rights. */
function asNobody<T>(work: () => T): T {
  const { getuid } = process
  process.seteuid?.(65534)
  process.getuid = () => 65534
  try {
    return work()
  } finally {
    process.getuid = getuid
    process.seteuid?.(0)
  }
}

test.serial('opening the data of another user, or a folder that cannot be created, fails with one sentence', t => {
  demandRoot()
  const folder = ownFolder(t)
  const data = join(folder, 'data')
  mkdirSync(join(data, 'run'), { recursive: true })
  writeFileSync(join(data, 'run/settings.json'), '{}', { mode: 0o600 })
  chownSync(data, 1, 1)
  for (const open of [openDataPlace, ownDataDir])
    t.throws(() => asNobody(() => open({ BERTH_DATA: data })), {
      message: `The data folder ${data} belongs to daemon, and this command runs as nobody. Run it as daemon, or set BERTH_DATA to a folder of your own.`,
    })
  const closed = join(folder, 'closed')
  t.throws(() => asNobody(() => openDataPlace({ BERTH_DATA: closed })), {
    message: `The data folder ${closed} cannot be created: nobody may not write there. Set BERTH_DATA to a folder of your own.`,
  })
  t.false(existsSync(closed))
  t.is(ownDataDir({ BERTH_DATA: data }), data, 'root may')
})

for (const [name, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  test(`${name} in the middle of a start ends it with ${code}, with everything that it has started`, async t => {
    const data = ownFolder(t)
    // A database and a Temporal that accept connections and never answer: the start waits for them.
    const silent = createServer(socket => t.teardown(() => socket.destroy())).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    t.teardown(() => silent.close())
    const address = `127.0.0.1:${(silent.address() as AddressInfo).port}`
    const settings = { DATABASE_URL: `postgres://berth@${address}/berth`, TEMPORAL_ADDRESS: address }
    const child = spawn(process.execPath, [...productArguments('cli/main'), 'up'], {
      cwd: checkout,
      env: { ...process.env, ...settings, BERTH_DATA: data },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    let output = ''
    child.stderr.on('data', chunk => {
      output += chunk
    })
    const ended = once(child, 'close')
    await comesTrue(() => existsSync(join(data, 'run/proxy.json')))
    const { pid } = JSON.parse(readFileSync(join(data, 'run/proxy.json'), 'utf8'))
    t.is(phaseOf(join(data, 'run')), `Starting Berth with its data in ${data}`)
    child.kill(name)
    t.is((await ended)[0], code, output)
    t.regex(output, /\nStopping \.\.\.\n$/, 'no error that the signal caused is shown')
    t.false(existsSync(`/proc/${pid}`), 'the proxy has ended')
    t.deepEqual(
      readdirSync(join(data, 'run')).filter(file => /^(proxy|supervisor)\.json$|^start-phase$/.test(file)),
      [],
    )
  })
