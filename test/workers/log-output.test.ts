import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'

/** Logs over many turns of the event loop, so that failed writes are noticed, exits like our processes, and prints the outcome. */
const program = `
  import { openLog } from './workers/connect.ts'
  const log = openLog({ logLevel: 'info' }, 'api')
  for (let n = 0; n < 200; n++) {
    log.info({ n }, 'a line')
    await new Promise(resolve => setTimeout(resolve, 1))
  }
  log.info('ending')
  process.stderr.write('lives')
  process.exit(0)
`

/** Runs the program with its log in a file; resolves to its exit code, or the signal that ended it, and what it said. */
async function logInto(path: string): Promise<[unknown, string]> {
  const file = openSync(path, 'a')
  const child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '--eval', program], {
    stdio: ['ignore', file, 'pipe'],
    timeout: 60_000, // one that hangs at its end is a failure, and not left behind
    killSignal: 'SIGKILL',
  })
  closeSync(file)
  let said = ''
  child.stderr!.on('data', piece => {
    said += piece
  })
  const [code, signal] = await once(child, 'close')
  return [code ?? signal, said]
}

test('a process whose log cannot be written, as on a full disk, continues and exits normally', async t => {
  t.timeout(90_000)
  t.deepEqual(await logInto('/dev/full'), [0, 'lives'])
})

test('every line is in the log, in order, including lines right before the exit', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-log-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'api.log')
  t.deepEqual(await logInto(path), [0, 'lives'])
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
  t.deepEqual(
    lines.map(line => JSON.parse(line)).map(({ n, msg }) => n ?? msg),
    [...Array(200).keys(), 'ending'],
  )
})
