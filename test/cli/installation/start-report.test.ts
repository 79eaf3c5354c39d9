import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { startReport } from '../../../cli/installation/start-report.ts'
import { checkout } from '../../kit/command.ts'
import { demandRoot } from '../../kit/root.ts'

function fake(connected: boolean) {
  const [out, err, sent]: [string[], string[], unknown[]] = [[], [], []]
  const process = {
    connected,
    send: (word: unknown) => Boolean(sent.push(word)),
    stdout: { write: (text: string) => out.push(text) },
    stderr: { write: (text: string) => err.push(text) },
  }
  return { process, out, err, sent }
}

test('in the background the summary goes to the user only, and never into the log', t => {
  const { process, out, err, sent } = fake(true)
  const { say, done } = startReport(process)
  say('Starting')
  done('API key 123-secret')
  t.deepEqual(sent, [{ say: 'Starting' }, { summary: 'API key 123-secret' }])
  t.deepEqual([out, err], [[], ['Starting\n']])
})

test('the summary stays out of the log also if the user has disconnected', t => {
  const { process, out, err, sent } = fake(true)
  const { done } = startReport(process)
  process.connected = false
  done('API key 123-secret')
  t.deepEqual([out, err, sent], [[], [], []])
})

test('in the foreground the summary is printed on the terminal', t => {
  const { process, out, sent } = fake(false)
  startReport(process).done('API key 123-secret')
  t.deepEqual([out, sent], [['API key 123-secret\n'], []])
})

test('a command that supervises outlives a full disk under its output, and writes again once there is room', async t => {
  demandRoot()
  const folder = await mkdtemp(join(tmpdir(), 'berth-full-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'tmpfs', folder])
  t.teardown(async () => {
    execFileSync('umount', [folder])
    await rm(folder, { recursive: true })
  })
  const filler = join(folder, 'filler')
  await t.throwsAsync(writeFile(filler, 'x'.repeat(100_000)), { code: 'ENOSPC' })
  const program = `
    import { rmSync } from 'node:fs'
    import { setTimeout as sleep } from 'node:timers/promises'
    import { startReport } from './cli/installation/start-report.ts'
    import { outliveOutput } from './cli/terminal/terminal.ts'
    outliveOutput(process)
    const { say, done } = startReport(process)
    say('has no room')
    done('has no room either')
    await sleep(100)
    rmSync(${JSON.stringify(filler)})
    say('has room')
  `
  const log = openSync(join(folder, 'log'), 'a')
  const child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '--eval', program], {
    cwd: checkout,
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  t.is((await once(child, 'exit'))[0], 0)
  t.is(readFileSync(join(folder, 'log'), 'utf8'), 'has room\n')
})
