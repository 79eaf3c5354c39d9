import { join } from 'node:path'
import { checkout } from './command.ts'

/**
 * How Node starts a program of the product, such as `workers/api` or `cli/main`, whatever the current folder. `./berth test` has compiled
 * them, which saves more than a second of a processor for each that is started; a test file by itself (`npx ava`) starts the sources.
 */
export function productArguments(program: string): string[] {
  const { TEST_COMPILED: compiled } = process.env
  return compiled
    ? ['--enable-source-maps', join(compiled, `${program}.js`)]
    : ['--import=tsx', join(checkout, `${program}.ts`)]
}
