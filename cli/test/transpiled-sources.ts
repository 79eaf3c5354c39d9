import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { transform } from 'esbuild'
import { runProcess } from '../../lib/child-process.ts'
import { checkout } from '../installation/installation.ts'
import { avaWorker, bundledAva } from './bundled-ava.ts'

const folders = 'activities api bench cli db edge lib policy runtimes test workers workflows'.split(' ')

/** What most test files load. */
const usual = ['test/kit/completion.ts', 'test/kit/actors/api.ts', 'test/kit/platform/platform.ts']

/** Where a module lies in the file of all of them: from, to, its encoding, and the `import.meta.url` that it has instead of its own. */
type Place = [from: number, to: number, encoding: 'latin1' | 'utf8', url: string | undefined]

/**
 * Transpiles every source and test file into `folder`, once for the run; returns the environment that makes test files load them
 * (test/kit/transpiled/register.cjs). Each test file is a process of its own, and would otherwise transpile or look up, and compile,
 * several hundred files. Modules of the product take themselves for those in `compiled`, the folder of the compiled product: the threads and
 * children that they start are compiled too.
 */
export async function transpiledSources(folder: string, compiled: string): Promise<Record<string, string>> {
  const paths = folders.flatMap(typescriptBelow)
  const sources = await Promise.all(paths.map(async path => [path, await transpiled(path)] as const))
  const texts: Buffer[] = []
  const modules: Record<string, Place> = {}
  let end = 0
  const add = (path: string, code: string, url?: string) => {
    const text = Buffer.from(`(${code})`)
    const from = end
    end += text.length
    texts.push(text)
    modules[path] = [from, end, text.length === text.toString().length ? 'latin1' : 'utf8', url]
  }
  add(avaWorker, asWaiting(await bundledAva()))
  for (const [path, module] of sources) {
    if (!module) continue
    add(path, module.code, /^(test|bench)\//.test(path) ? undefined : compiledUrl(compiled, path))
    mkdirSync(join(folder, dirname(path)), { recursive: true })
    writeFileSync(join(folder, `${path}.map`), module.map)
  }
  writeFileSync(join(folder, 'code'), Buffer.concat(texts))
  writeFileSync(join(folder, 'index.json'), JSON.stringify({ modules }))
  const kit = join(checkout, 'test/kit/transpiled')
  await runProcess(
    process.execPath,
    [`--require=${join(kit, 'register.cjs')}`, join(kit, 'record.cjs'), ...usual.map(path => join(checkout, path))],
    { env: { TEST_TRANSPILED: folder, TEST_CODE_CACHE: '1' } },
  )
  return { TEST_TRANSPILED: folder }
}

const compiledUrl = (compiled: string, path: string) => pathToFileURL(join(compiled, path.replace(/\.ts$/, '.js'))).href

/** It imports a library that waits at its top level, which `require` refuses (test/kit/transpiled/register.cjs). */
const importer = 'workers/toy-model/llama.ts'

/** A module as a function, an asynchronous one for a test file that waits for something at its top level; null for a program that does so. */
async function transpiled(path: string): Promise<{ code: string; map: string } | null> {
  const text = readFileSync(join(checkout, path), 'utf8')
  const source = path === importer ? text.replace('await import(', 'await __import(') : text
  const transpileTo = (format: 'cjs' | 'esm') =>
    transform(source, {
      loader: 'ts',
      sourcefile: pathToFileURL(join(checkout, path)).href,
      format,
      platform: 'node',
      target: 'node20',
      define: { 'import.meta': '__meta' },
      supported: { 'dynamic-import': false },
      sourcemap: 'external',
      sourcesContent: false,
      logLevel: 'silent',
    })
  const without = (text: string) => text.replace(helper, linesOf)
  try {
    const { code, map } = await transpileTo('cjs')
    return { code: asFunction(without(code)), map }
  } catch (error) {
    if (!/Top-level await/.test(String(error))) throw error
    if (!path.endsWith('.test.ts')) return null
    const { code, map } = await transpileTo('esm')
    return { code: asWaiting(without(code)), map }
  }
}

/** A text as long in lines: all others stay where the map has them. */
const linesOf = (text: string) => text.replace(/[^\n]/g, '')

/** The helpers of esbuild, which every file would have for itself. */
const helper = /^var __(?:export|copyProps|reExport|toESM|toCommonJS) = .*\n(?:[ })].*\n)*/gm

/** Imports as esbuild writes them. */
const imports = /^import (?:(\w+)(?:, )?)?(?:\* as (\w+))?(\{[^}]*\})?(?: from )?("[^"]*");$/gm

function asRequire(_: string, byDefault?: string, whole?: string, names?: string, module?: string): string {
  const some = [byDefault && `default: ${byDefault}`, names?.slice(1, -1).replaceAll(' as ', ': ')].filter(Boolean)
  const taken = whole ?? (some.length > 0 && `{ ${some.join(', ')} }`)
  return `${taken ? `const ${taken} = ` : ''}__toESM(require(${module}));`
}

const asFunction = (code: string) =>
  `function (module, require, __meta, __toESM, __toCommonJS, __export, __reExport) { "use strict"; ${code}\n}`

/** An ES module that waits for something at its top level. */
const asWaiting = (code: string) => `async ${asFunction(code.replace(imports, asRequire))}`

function typescriptBelow(folder: string): string[] {
  return readdirSync(join(checkout, folder), { recursive: true, encoding: 'utf8' })
    .filter(path => path.endsWith('.ts') && !path.endsWith('.d.ts') && !path.includes('node_modules/'))
    .map(path => join(folder, path))
}
