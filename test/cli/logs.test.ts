import { type ChildProcess, spawn } from 'node:child_process'
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { logsCommand } from '../../cli/logs.ts'
import { psCommand } from '../../cli/ps.ts'
import { writeRecord } from '../../workers/supervisor/process-record.ts'
import { rotateLogs } from '../../workers/supervisor/supervisor.ts'
import { operatorHere } from '../kit/actors/operator-command.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { checkout } from '../kit/command.ts'
import { productArguments } from '../kit/product.ts'

/** A data folder with these logs. */
function dataFolder(t: ExecutionContext, logs: Record<string, string> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'berth-logs-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  for (const name of ['logs', 'run']) mkdirSync(join(folder, name))
  for (const [name, text] of Object.entries(logs)) writeFileSync(join(folder, 'logs', name), text)
  return folder
}

const command = (folder: string, ...args: string[]) =>
  operatorHere([logsCommand, psCommand], { BERTH_DATA: folder }, ...args)

test.serial('berth logs prints the last lines of one part, or of all parts with their names', async t => {
  const folder = dataFolder(t, { 'worker.log': 'one\ntwo\n', 'api.log': 'três\nfour\nhalf', 'api.log.1': 'old\n' })
  t.is((await command(folder, 'logs', 'api')).stdout, 'três\nfour\n')
  t.is(
    (await command(folder, 'logs')).stdout,
    'api          três\napi          four\nworker       one\nworker       two\n',
  )
  const unknown = await command(folder, 'logs', 'secretary')
  t.deepEqual([unknown.code, unknown.stderr], [1, 'There is no log of "secretary". Logs: api, worker'])
  t.regex((await command(dataFolder(t), 'logs')).stderr, /There are no logs in .*berth up/)
})

test.serial('berth logs prints whole lines from the last 16 KB of a long log', async t => {
  const lines = Array.from({ length: 5000 }, (_, n) => `line ${String(n).padStart(5, '0')} é\n`)
  const { stdout } = await command(dataFolder(t, { 'api.log': lines.join('') }), 'logs', 'api')
  const shown = stdout.split(/(?<=\n)/)
  t.deepEqual(shown, lines.slice(-shown.length))
  const bytes = Buffer.byteLength(stdout)
  t.true(bytes <= 16_384 && bytes > 16_384 - 2 * Buffer.byteLength(lines[0]!), String(bytes))
})

test.serial('berth logs --follow prints new lines as they arrive, also after the log was rotated', async t => {
  const folder = dataFolder(t, { 'api.log': 'one\n' })
  const path = join(folder, 'logs/api.log')
  const env = { ...process.env, BERTH_DATA: folder }
  const args = [...productArguments('cli/main'), 'logs', 'api', '--follow']
  const child: ChildProcess = spawn(process.execPath, args, { cwd: checkout, env, stdio: ['ignore', 'pipe', 'ignore'] })
  t.teardown(() => child.kill('SIGKILL'))
  let text = ''
  child.stdout!.on('data', piece => (text += piece))
  await comesTrue(() => text === 'one\n')
  appendFileSync(path, 'two\nth')
  await comesTrue(() => text === 'one\ntwo\n')
  appendFileSync(path, 'ree\n')
  await comesTrue(() => text === 'one\ntwo\nthree\n')
  rotateLogs(join(folder, 'logs'), 3, 3, line => t.fail(line))
  appendFileSync(path, 'four\n')
  await comesTrue(() => text === 'one\ntwo\nthree\nfour\n')
  t.pass()
})

test.serial('berth ps lists the running processes by name', async t => {
  const folder = dataFolder(t)
  t.is((await command(folder, 'ps')).stdout, 'Berth is not running. Start it with: berth up\n')
  t.is((await command(folder, 'ps', '--json')).stdout, '[]\n')
  const sleeper = () => {
    const child = spawn('sleep', ['600'], { stdio: 'ignore' })
    t.teardown(() => child.kill('SIGKILL'))
    return child
  }
  const [worker, api, ended] = [sleeper(), sleeper(), sleeper()]
  for (const [name, { pid }] of Object.entries({ worker, api, ended, dockerd: worker }))
    writeRecord(join(folder, 'run'), { name, pid: pid!, stopSignal: 'SIGTERM', graceSeconds: 1 })
  ended.kill('SIGKILL')
  await comesTrue(() => ended.signalCode !== null)
  t.is((await command(folder, 'ps')).stdout, `api     ${api.pid}\nworker  ${worker.pid}\n`)
  t.deepEqual(JSON.parse((await command(folder, 'ps', '--json')).stdout), [
    { name: 'api', pid: api.pid },
    { name: 'worker', pid: worker.pid },
  ])
})
