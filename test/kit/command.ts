import { execFile, spawn } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const checkout = join(dirname(fileURLToPath(import.meta.url)), '../..')

export interface Ran {
  code: number
  stdout: string
  stderr: string
}

/** Runs `./berth` as a person would, from a folder that is not the checkout. Resolves also when it fails. */
export function berth(args: string[], env: Record<string, string>, seconds = 120): Promise<Ran> {
  const options = { cwd: '/', env: { ...process.env, ...env }, timeout: seconds * 1000, maxBuffer: 64 * 1024 * 1024 }
  return new Promise(resolve => {
    execFile(join(checkout, 'berth'), args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1
      resolve({ code, stdout, stderr })
    })
  })
}

/** A command that runs until it is ended. */
export function startBerth(args: string[], env: Record<string, string>) {
  const options = { cwd: '/', env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] as const }
  const child = spawn(join(checkout, 'berth'), args, options as never)
  const ended = new Promise<number | null>(resolve => child.once('exit', code => resolve(code)))
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', text => {
    said += text
  })
  return {
    /** Its exit code, when it has ended. */
    ended,
    /** What it has written to its standard error. */
    said: () => said,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    /** Resolves once it has said so; rejects when it ends, or after 150 s: it may have to be compiled first. */
    says: (what: RegExp) =>
      new Promise<void>((resolve, reject) => {
        const look = () => what.test(said) && finish(resolve)
        const timer = setTimeout(() => finish(() => reject(new Error(`it only said: ${said}`))), 150_000)
        const finish = (then: () => void) => {
          clearTimeout(timer)
          child.stderr?.off('data', look)
          then()
        }
        child.stderr?.on('data', look)
        void ended.then(() => finish(() => reject(new Error(`it ended, and said: ${said}`))))
        look()
      }),
    /** Sends a signal; resolves to the exit code. */
    end: (signal: NodeJS.Signals) => {
      child.kill(signal)
      return ended
    },
  }
}
