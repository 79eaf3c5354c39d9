import { spawn } from 'node:child_process'
import { checkout } from '../command.ts'
import { productArguments } from '../product.ts'

/**
 * Runs an operator's command in its own terminal, and types each answer once its question is shown.
 * Resolves to all that the terminal showed, and the exit code.
 */
export function atTerminal(
  args: readonly string[],
  env: Record<string, string>,
  answers: readonly (readonly [question: string, typed: string])[],
): Promise<{ shown: string; code: number | null }> {
  const command = [process.execPath, ...productArguments('cli/main'), ...args].map(word => `'${word}'`).join(' ')
  const options = { cwd: checkout, env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'inherit'] as const }
  // Of util-linux, which every distribution has: it makes a terminal and passes on what it reads.
  const child = spawn('script', ['-qefc', command, '/dev/null'], options as never)
  const left = [...answers]
  let shown = ''
  child.stdout!.setEncoding('utf8').on('data', text => {
    shown += text
    while (left[0] && shown.includes(left[0][0])) child.stdin!.write(left.shift()![1])
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code => resolve({ shown, code }))
  })
}
