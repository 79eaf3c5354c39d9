import { execFile } from 'node:child_process'
import { checkout } from '../command.ts'
import { productArguments } from '../product.ts'

/** What the health check of a container says of a process: its exit code, and its words. */
export function health(name: string, env: Record<string, string>): Promise<{ code: number | string; words: string }> {
  const options = { cwd: checkout, env: { ...process.env, ...env } }
  return new Promise(resolve => {
    execFile(process.execPath, [...productArguments('workers/health'), name], options, (error, _, stderr) => {
      resolve({ code: error?.code ?? 0, words: stderr })
    })
  })
}
