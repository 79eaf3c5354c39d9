import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { startTicks } from '../../../lib/process-stat.ts'
import { isAlive, isFrozen, readRecord, signal, writeRecord } from '../../../workers/supervisor/process-record.ts'

import { type ProcessSpec, restartDelayMs } from '../../../workers/supervisor/supervised-process.ts'
import { endLeftovers, rotateLogs, runningProcesses, Supervisor } from '../../../workers/supervisor/supervisor.ts'

import { comesTrue } from '../../kit/comes-true.ts'
import { demandRoot } from '../../kit/root.ts'

const ready =
  'process.send({ ready: true }); process.on("disconnect", () => process.exit()); setInterval(() => {}, 1000);'
const note = (word: string) =>
  `require("node:fs").appendFileSync("order", "${word}\\n"); process.on("SIGTERM", () => { require("node:fs").appendFileSync("order", "-${word}\\n"); process.exit(0) });`

function temporaryFolder(t: ExecutionContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'berth-supervisor-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function makeSupervisor(t: ExecutionContext) {
  const folder = temporaryFolder(t)
  const said: string[] = []
  const supervisor = new Supervisor({
    runFolder: `${folder}/run`,
    logFolder: `${folder}/logs`,
    say: line => said.push(line),
  })
  t.teardown(() => supervisor.stop())
  const spec = (name: string, script: string, more: Partial<ProcessSpec> = {}): ProcessSpec => ({
    name,
    command: async () => ({
      command: process.execPath,
      args: ['-e', script],
      env: { PATH: process.env.PATH },
      cwd: folder,
    }),
    ready: 'ipc',
    readySeconds: 20,
    stopSignal: 'SIGTERM',
    graceSeconds: 2,
    needs: [],
    ...more,
  })
  const record = (name: string) => readRecord(`${folder}/run`, name)
  return { folder, said, supervisor, spec, record }
}

async function until<T>(probe: () => T | null | undefined | false, seconds = 10): Promise<T> {
  for (const deadline = Date.now() + seconds * 1000; Date.now() < deadline; await sleep(10)) {
    const value = probe()
    if (value) return value
  }
  throw new Error('it did not happen in time')
}

test('a process whose record could not be written, as on a full disk, runs once and is supervised', async t => {
  const { folder, supervisor, spec, said } = makeSupervisor(t)
  mkdirSync(`${folder}/run/one.json.new`) // where the record is written first
  await supervisor.start(spec('one', note('one') + ready))
  t.is(readFileSync(`${folder}/order`, 'utf8'), 'one\n')
  t.regex(said.join('\n'), /^one runs, but other commands cannot see it: /)
  await supervisor.stop()
  t.is(readFileSync(`${folder}/order`, 'utf8'), 'one\n-one\n')
})

test('processes start after their dependencies, and stop before them', async t => {
  const { folder, supervisor, spec } = makeSupervisor(t)
  await Promise.all([
    supervisor.start(spec('store', note('store') + ready)),
    supervisor.start(spec('api', note('api') + ready, { needs: ['store'] })),
  ])
  await supervisor.stop()
  t.deepEqual(readFileSync(`${folder}/order`, 'utf8').trim().split('\n'), ['store', 'api', '-api', '-store'])
  t.deepEqual(runningProcesses(`${folder}/run`), [])
})

test('a killed process is restarted immediately, after its group has ended', async t => {
  const { folder, supervisor, spec, record } = makeSupervisor(t)
  const withChild = `const child = require("node:child_process").spawn("sleep", ["1000"]); require("node:fs").writeFileSync("grandchild", String(child.pid));`
  await supervisor.start(spec('api', withChild + ready))
  const first = record('api')!
  const grandchild = Number(readFileSync(`${folder}/grandchild`, 'utf8'))
  process.kill(first.pid, 'SIGKILL')
  const second = await until(() => {
    const now = record('api')
    return now && now.pid !== first.pid && isAlive(now) ? now : null
  })
  t.is(restartDelayMs(1), 0)
  t.not(second.pid, first.pid)
  await until(() => startTicks(grandchild) === null)
  t.pass()
})

test('a process that ignores its signal is killed after its grace', async t => {
  const { supervisor, spec, record } = makeSupervisor(t)
  await supervisor.start(spec('deaf', `process.on("SIGTERM", () => {}); ${ready}`, { graceSeconds: 0.3 }))
  const { pid } = record('deaf')!
  await supervisor.stop()
  t.is(startTicks(pid), null)
})

test('a process that keeps ending before it answers is reported with its log', async t => {
  const { supervisor, spec } = makeSupervisor(t)
  const error = await t.throwsAsync(
    supervisor.start(spec('broken', 'console.error("what was wrong"); process.exit(3)')),
  )
  t.regex(error.message, /broken did not start: ended \(exit code 3\).*broken\.log.*ends with:\nwhat was wrong/s)
})

test('of a process that does not start, its own log is shown as people read it', async t => {
  const { supervisor, spec } = makeSupervisor(t)
  const message =
    'Knex: Timeout acquiring a connection. The pool is probably full. Are you missing a .transacting(trx) call?'
  const event = { level: 40, time: '2026-11-30T14:16:10.295Z', name: 'worker', msg: 'the database is not reachable' }
  const logged = [
    { ...event, err: { message: `${message}: too many clients`, stack: 'at a' } },
    event,
    'null',
    '{"msg":1}',
  ]
  const lines = logged.map(line => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')
  const error = await t.throwsAsync(
    supervisor.start(spec('full', `console.error(${JSON.stringify(lines)}); process.exit(1)`)),
  )
  const shown = error.message.split('ends with:\n')[1]!.split('\n').slice(-4)
  t.deepEqual(shown, [
    '14:16:10 the database is not reachable: too many clients',
    '14:16:10 the database is not reachable',
    'null',
    '{"msg":1}',
  ])
})

test('leftovers of a killed supervisor are ended; a reused pid is left alone', async t => {
  const folder = temporaryFolder(t)
  const start = () => {
    const { pid } = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' })
    t.teardown(() => signal(pid!, 'SIGKILL'))
    return pid!
  }
  const [orphan, stranger] = [start(), start()]
  for (const [name, pid] of [
    ['orphan', orphan],
    ['stranger', stranger],
  ] as const)
    writeRecord(folder, { name, pid, stopSignal: 'SIGTERM', graceSeconds: 1 })
  const path = join(folder, 'stranger.json')
  writeFileSync(path, readFileSync(path, 'utf8').replace(/"startTicks":"\d+"/, '"startTicks":"1"'))
  t.deepEqual(
    runningProcesses(folder).map(record => record.pid),
    [orphan],
  )
  t.deepEqual(await endLeftovers(folder), ['orphan'])
  t.is(startTicks(orphan), null)
  t.not(startTicks(stranger), null)
})

test('a frozen process is distinguished from a running one', async t => {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  t.teardown(() => child.kill('SIGKILL'))
  const { pid = 0 } = child
  const becomes = async (still: boolean) => {
    await comesTrue(() => isFrozen({ pid }) === still)
  }
  t.false(isFrozen({ pid }))
  signal(pid, 'SIGSTOP')
  await becomes(true)
  signal(pid, 'SIGCONT')
  await becomes(false)
})

test('restarts are quick at first and slow down', t => {
  t.deepEqual([1, 2, 3, 4, 5, 6, 7, 50].map(restartDelayMs), [0, 250, 500, 1000, 2000, 5000, 10_000, 10_000])
})

test('logs are bounded, and their writers keep writing into the same file', t => {
  const folder = temporaryFolder(t)
  const path = join(folder, 'api.log')
  for (const letter of ['a', 'b', 'c', 'd']) {
    writeFileSync(path, letter.repeat(200), { flag: 'a' })
    rotateLogs(folder, 100, 2, line => t.fail(line))
  }
  t.is(readFileSync(path, 'utf8'), '')
  t.is(readFileSync(`${path}.1`, 'utf8'), 'd'.repeat(200))
  t.is(readFileSync(`${path}.2`, 'utf8'), 'c'.repeat(200))
  t.throws(() => readFileSync(`${path}.3`))
})

test('a full disk does not end the rotation of logs: what has no room for a copy is emptied, and frees room for others', t => {
  demandRoot()
  const folder = temporaryFolder(t)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder])
  t.teardown(() => execFileSync('umount', [folder]))
  writeFileSync(join(folder, 'api.log.1'), 'older')
  writeFileSync(join(folder, 'api.log'), 'a'.repeat(40_960))
  writeFileSync(join(folder, 'worker.log'), 'b'.repeat(12_288))
  t.throws(() => writeFileSync(join(folder, 'more'), 'c'.repeat(12_288)), { code: 'ENOSPC' })
  const said: string[] = []
  rotateLogs(folder, 100, 2, line => said.push(line))
  const content = (name: string) => readFileSync(join(folder, name), 'utf8')
  t.deepEqual(readdirSync(folder).sort(), ['api.log', 'api.log.1', 'more', 'worker.log', 'worker.log.1'])
  t.deepEqual([content('api.log'), content('api.log.1')], ['', 'older'])
  t.deepEqual([content('worker.log'), content('worker.log.1')], ['', 'b'.repeat(12_288)])
  t.deepEqual(said, [`${folder}/api.log is emptied without a copy, for which the disk has no room.`])
})

test('a log that cannot be rotated does not end the rotation of others', t => {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'api.log.0'))
  for (const name of ['api', 'worker']) writeFileSync(join(folder, `${name}.log`), name.repeat(100))
  const said: string[] = []
  rotateLogs(folder, 100, 2, line => said.push(line))
  t.is(readFileSync(join(folder, 'worker.log'), 'utf8'), '')
  t.is(said.length, 1)
  t.regex(said[0]!, /^The log api\.log could not be rotated: /)
})
