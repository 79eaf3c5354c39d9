import { execFile } from 'node:child_process'
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
