import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { build } from 'esbuild'
import { checkout } from '../installation/installation.ts'

/** What ava runs in the process of each test file. */
export const avaWorker = 'node_modules/ava/lib/worker/base.js'

/**
 * Ava's worker with its packages, as one ES module that waits at its top level for what ava sends. Node needs 0.2 s of a processor to find, read
 * and compile these 390 modules, in every process.
 */
export async function bundledAva(): Promise<string> {
  const path = join(checkout, avaWorker)
  const folder = dirname(path)
  const [handlers, main] = ['completion-handlers.js', 'main.cjs'].map(name => JSON.stringify(join(folder, name)))
  // What test files import from `ava`; `default` exists once ava has made the runner of the file.
  const offered = `import { registerCompletionHandler } from ${handlers}
module.ava = { __esModule: true, get default() { return require(${main}) }, registerCompletionHandler }
`
  const { outputFiles } = await build({
    stdin: { contents: offered + readFileSync(path, 'utf8'), resolveDir: folder },
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    supported: { 'dynamic-import': false },
    define: { 'import.meta': '__meta' },
    legalComments: 'none',
    logLevel: 'error',
  })
  return outputFiles[0]!.text
}
