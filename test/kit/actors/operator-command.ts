import { execFile } from 'node:child_process'
import { Command } from 'commander'
import { checkout, type Ran } from '../command.ts'
import { productArguments } from '../product.ts'

const masterKey = '00'.repeat(32)

/** Runs a command of an operator on a test database. Resolves also when it fails. */
export function operatorCommand(settings: Record<string, string>, ...args: string[]): Promise<Ran> {
  const env = { ...process.env, BERTH_MASTER_KEY: masterKey, ...settings }
  return new Promise(resolve => {
    execFile(
      process.execPath,
      [...productArguments('cli/main'), ...args],
      { cwd: checkout, env },
      (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : 1, stdout, stderr })
      },
    )
  })
}

/** The same in this process, which starts none: for many commands, one after the other. `verbs` are those that they need. */
export async function operatorHere(
  verbs: readonly ((program: Command) => void)[],
  settings: Record<string, string>,
  ...args: string[]
): Promise<Ran> {
  const program = new Command('berth').exitOverride()
  for (const add of verbs) add(program)
  const [before, log] = [{ ...process.env }, console.log]
  const lines: unknown[] = []
  Object.assign(process.env, { BERTH_MASTER_KEY: masterKey, ...settings })
  console.log = line => void lines.push(line)
  try {
    await program.parseAsync(args, { from: 'user' })
    return { code: 0, stdout: lines.map(line => `${line}\n`).join(''), stderr: '' }
  } catch (error) {
    return { code: 1, stdout: lines.join('\n'), stderr: (error as Error).message }
  } finally {
    console.log = log
    process.env = before
  }
}
