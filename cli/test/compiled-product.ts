import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { checkout } from '../installation/installation.ts'

/**
 * The environment that points tests at the compiled product, if it was built from the present sources; empty otherwise, so that no
 * test runs an earlier build.
 */
export async function compiledProduct(): Promise<Record<string, string>> {
  const folder = join(checkout, 'dist')
  const mark = join(folder, '.source-hash')
  const { sourceHash }: { sourceHash(root: string): string } = await import(
    pathToFileURL(join(checkout, 'scripts/build.mjs')).href
  )
  if (!existsSync(mark) || readFileSync(mark, 'utf8') !== sourceHash(checkout)) return {}
  return { TEST_COMPILED: folder, TEST_WORKFLOW_BUNDLE: join(folder, 'workflows.bundle.js') }
}
