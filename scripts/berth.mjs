// Runs a command of cli/ in this process, after another one has prepared the checkout if it was not ready: a compiler and a bundler
// would stay in the memory of `berth up`.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isReady } from './ready.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
if (!isReady(root)) await prepare()
await import('../dist/cli/main.js')

/** Signals end the preparation, which then ends this process with its exit code. */
async function prepare() {
  const words = [join(root, 'scripts/prepare.mjs'), process.argv[2] ?? '']
  const child = spawn(process.execPath, words, { stdio: 'inherit' })
  const forward = signal => child.kill(signal)
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
  for (const signal of signals) process.on(signal, forward)
  const [code, signal] = await once(child, 'exit')
  if (signal)
    process.stderr.write(`The preparation of the checkout was ended by ${signal}. Run the same command again.\n`)
  if (code !== 0) process.exit(code ?? 128 + constants.signals[signal])
  for (const signal of signals) process.off(signal, forward)
}
