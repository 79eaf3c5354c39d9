import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { startTicks } from '../../../lib/process-stat.ts'
import { isAlive, readRecord, signal } from '../../../workers/supervisor/process-record.ts'
import { AlreadyRunning, lockSupervisor, runningSupervisor } from '../../../workers/supervisor/supervisor-lock.ts'

function temporaryFolder(t: ExecutionContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'berth-lock-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A process that tries to lock each given folder, keeps the locks that it gets, and reports the outcome. */
const contender = `
  import { startProcess } from './lib/child-process.ts'
  import { lockSupervisor } from './workers/supervisor/supervisor-lock.ts'
  process.on('message', async folder => {
    if (folder === 'start a child') return process.send(startProcess('/bin/sleep', ['60'], { detached: true }).pid)
    try {
      await lockSupervisor(folder)
      process.send('won')
    } catch (error) {
      process.send(error.name + ' ' + error.record?.pid)
    }
  })
  process.send('ready')`

async function startContender(t: ExecutionContext): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '-e', contender], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  await once(child, 'message')
  return child
}

async function attempt(child: ChildProcess, folder: string): Promise<string | number> {
  const said = once(child, 'message')
  child.send(folder)
  return (await said)[0]
}

/** What a supervisor leaves behind that was killed: the process of its record has ended long ago. */
function leaveStaleLock(folder: string): void {
  mkdirSync(folder, { recursive: true })
  const dead = { name: 'supervisor', pid: 1, startTicks: '1', stopSignal: 'SIGTERM', graceSeconds: 60 }
  writeFileSync(join(folder, 'supervisor.json'), JSON.stringify(dead))
  writeFileSync(join(folder, 'supervisor.lock'), '')
}

test('a folder has one supervisor; the lock of a dead one is taken over', async t => {
  const folder = temporaryFolder(t)
  leaveStaleLock(folder)
  t.is(runningSupervisor(folder), null)
  const release = await lockSupervisor(folder)
  t.is(runningSupervisor(folder)?.pid, process.pid)
  await t.throwsAsync(lockSupervisor(folder), { instanceOf: AlreadyRunning })
  release()
  t.is(runningSupervisor(folder), null)
  const again = await lockSupervisor(folder)
  again()
})

test('the next supervisor gets the lock of a killed one, whose children do not hold it', async t => {
  const folder = temporaryFolder(t)
  const child = await startContender(t)
  t.is(await attempt(child, folder), 'won')
  t.is(readRecord(folder, 'supervisor')?.pid, child.pid)
  await t.throwsAsync(lockSupervisor(folder), { instanceOf: AlreadyRunning })
  const sleeper = Number(await attempt(child, 'start a child'))
  t.teardown(() => signal(sleeper, 'SIGKILL'))
  child.kill('SIGKILL')
  await once(child, 'exit')
  t.not(startTicks(sleeper), null)
  const release = await lockSupervisor(folder)
  t.is(runningSupervisor(folder)?.pid, process.pid)
  release()
})

test('of six processes that find the same stale lock concurrently, exactly one gets it, in each of thirty rounds', async t => {
  const root = temporaryFolder(t)
  const contenders = await Promise.all(Array.from({ length: 6 }, () => startContender(t)))
  for (let round = 0; round < 30; round++) {
    const folder = join(root, String(round))
    leaveStaleLock(folder)
    const said = await Promise.all(contenders.map(child => attempt(child, folder)))
    const winners = contenders.filter((_, n) => said[n] === 'won')
    t.is(winners.length, 1, `round ${round}: ${said.join(', ')}`)
    // Those who lost name the one that won.
    t.is(said.filter(word => word === `AlreadyRunning ${winners[0]!.pid}`).length, 5, said.join(', '))
    const record = JSON.parse(readFileSync(join(folder, 'supervisor.json'), 'utf8'))
    t.is(record.pid, winners[0]!.pid)
    t.true(isAlive(record))
  }
})
