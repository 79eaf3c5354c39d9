import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { checkout } from '../installation/installation.ts'

const folders = 'activities api bench cli db edge lib policy runtimes test workers workflows'.split(' ')

/**
 * Transpiles every source and test file into `folder`, once for the run; returns the environment that makes test files load them.
 * Each test file is a process of its own, and would otherwise transpile or look up several hundred files.
 */
export async function transpiledSources(folder: string): Promise<Record<string, string>> {
  const entryPoints = folders.flatMap(typescriptBelow)
  await build({
    entryPoints,
    outdir: folder,
    outbase: checkout,
    sourceRoot: pathToFileURL(`${checkout}/`).href,
    bundle: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    sourcemap: 'inline',
    sourcesContent: false,
    logLevel: 'error',
  })
  return { TEST_TRANSPILED: folder }
}

function typescriptBelow(folder: string): string[] {
  return readdirSync(join(checkout, folder), { recursive: true, encoding: 'utf8' })
    .filter(path => path.endsWith('.ts') && !path.endsWith('.d.ts') && !path.includes('node_modules/'))
    .map(path => join(checkout, folder, path))
}
