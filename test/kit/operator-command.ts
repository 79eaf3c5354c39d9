import { execFile } from 'node:child_process'
import { checkout, type Ran } from './command.ts'

/** Runs a command of an operator on a test database, from the sources. Resolves also when it fails. */
export function operatorCommand(settings: Record<string, string>, ...args: string[]): Promise<Ran> {
  const env = { ...process.env, BERTH_MASTER_KEY: '00'.repeat(32), ...settings }
  return new Promise(resolve => {
    execFile(
      process.execPath,
      ['--import=tsx', 'cli/main.ts', ...args],
      { cwd: checkout, env },
      (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : 1, stdout, stderr })
      },
    )
  })
}
