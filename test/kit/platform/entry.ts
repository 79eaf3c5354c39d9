import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { processStat } from '../../../lib/process-stat.ts'
import { checkout } from '../command.ts'
import { productArguments } from '../product.ts'

export interface Entry {
  child: ChildProcess
  /** What it wrote, for the message of a test that fails. */
  output: () => string
  /** Resolves when it says that it is ready; rejects when it ends before. */
  ready: Promise<void>
  /** Resolves to the signal or code that it ended with. */
  ended: Promise<string | number | null>
  kill(signal: NodeJS.Signals): Promise<void>
}

const living = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})

/**
 * One of the product's own processes, from its entry file in workers/, as the supervisor starts it; `through` are words put before it.
 * `folder` is the checkout of another version, whose sources are started.
 */
export function startEntry(
  name: 'api' | 'worker' | 'host' | 'analytics',
  env: Record<string, string>,
  through: readonly string[] = [],
  folder?: string,
): Entry {
  const started = folder ? ['--import=tsx', `workers/${name}.ts`] : productArguments(`workers/${name}`)
  const [program, ...words] = [...through, process.execPath, ...started]
  const child = spawn(program!, words, {
    cwd: folder ?? checkout,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    detached: true, // a session of its own, which some kernels schedule as one
  })
  living.add(child)
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', text => {
      output += text
    })
  const ended = once(child, 'exit').then(([code, signal]) => {
    living.delete(child)
    return signal ?? code
  })
  const ready = new Promise<void>((resolve, reject) => {
    child.on('message', message => {
      if ((message as { ready?: boolean }).ready) resolve()
    })
    void ended.then(end => reject(new Error(`${name} ended with ${end}: ${output.slice(-2000)}`)))
  })
  ready.catch(() => {}) // callers that await it get the error
  const kill = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    await ended
  }
  return { child, output: () => output, ready, ended, kill }
}

/** Whether the kernel has stopped the process (SIGSTOP). */
export const isFrozen = ({ child }: Entry): boolean => processStat(child.pid!)?.state === 'T'
