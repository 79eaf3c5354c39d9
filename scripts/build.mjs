// Compiles the product into dist/: TypeScript, other files (SQL, Lua, recipes), the bundles of its programs, and the workflow bundle,
// which every worker would otherwise build at its start (3 s).
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const productFolders = ['lib', 'policy', 'db', 'activities', 'workflows', 'api', 'workers', 'cli', 'edge', 'runtimes']
const buildFiles = [
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'scripts/build.mjs',
  'scripts/bundle.mjs',
]

/** Changes whenever a build would have another result. */
export function sourceHash(root) {
  const hash = createHash('sha256')
  for (const file of sourceFiles(root))
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(root, file)))
      .update('\0')
  return hash.digest('hex')
}

/** Changes whenever a source is written, added, removed or replaced. Reads no file, so that it takes a tenth of the time of `sourceHash`. */
export function sourceStamp(root) {
  const hash = createHash('sha256')
  for (const file of sourceFiles(root)) {
    const { ino, size, mtimeNs, ctimeNs } = statSync(join(root, file), { bigint: true })
    hash.update(`${file}\0${ino} ${size} ${mtimeNs} ${ctimeNs}\0`)
  }
  return hash.digest('hex')
}

const sourceFiles = root => [...buildFiles, ...productFolders.flatMap(folder => filesBelow(root, folder))]

/**
 * Builds next to the old dist/ and swaps at the end, so that an interrupted build leaves nothing half done. While it runs, `inProgress`
 * holds a function that ends it immediately.
 */
export async function build(root, inProgress = new Set()) {
  const hash = sourceHash(root)
  const next = join(root, `.dist-${process.pid}`)
  removeLeftovers(root)
  let running
  const end = () => {
    running?.kill('SIGKILL')
    rmSync(next, { recursive: true, force: true, maxRetries: 3 }) // the bundler writes by itself
  }
  inProgress.add(end)
  try {
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    // A process group of its own: Ctrl-C reaches only us, and we end it.
    running = spawn(process.execPath, [tsc, '-p', 'tsconfig.build.json', '--outDir', next], {
      cwd: root,
      stdio: ['ignore', 2, 2],
      detached: true,
    })
    const [status] = await once(running, 'exit')
    if (status !== 0) throw new Error('The sources do not compile; see the messages above.')
    for (const file of productFolders.flatMap(folder => filesBelow(root, folder))) {
      if (file.endsWith('.ts')) continue
      mkdirSync(dirname(join(next, file)), { recursive: true })
      cpSync(join(root, file), join(next, file))
    }
    await bundleWorkflows(root, next)
    const { bundlePrograms } = await import('./bundle.mjs') // needs packages, and this module is read before they are installed
    await bundlePrograms(next, child => {
      running = child
    })
    writeFileSync(join(next, '.source-hash'), hash)
    swap(join(root, 'dist'), next)
  } finally {
    inProgress.delete(end)
    rmSync(next, { recursive: true, force: true })
  }
}

/** Removes what killed builds have left. */
function removeLeftovers(root) {
  for (const name of readdirSync(root)) {
    const pid = /^\.dist-(\d+)$|^dist-old-(\d+)$/.exec(name)?.slice(1).find(Boolean)
    if (pid && (pid === String(process.pid) || !existsSync(`/proc/${pid}`)))
      rmSync(join(root, name), { recursive: true, force: true })
  }
}

async function bundleWorkflows(root, next) {
  const entry = join(next, 'workflows/index.js')
  if (!existsSync(entry)) return
  const require = createRequire(join(root, 'package.json'))
  const { bundleWorkflowCode } = await import(pathToFileURL(require.resolve('@temporalio/worker')).href)
  const silent = { trace() {}, debug() {}, info() {}, warn: console.error, error: console.error, log() {} }
  const { code } = await bundleWorkflowCode({ workflowsPath: entry, logger: silent })
  writeFileSync(join(next, 'workflows.bundle.js'), code)
}

function swap(current, next) {
  const old = `${current}-old-${process.pid}`
  if (existsSync(current)) renameSync(current, old)
  renameSync(next, current)
  rmSync(old, { recursive: true, force: true })
}

function filesBelow(root, folder) {
  if (!existsSync(join(root, folder))) return []
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => relative(root, join(entry.parentPath, entry.name)))
    .sort()
}

// Not awaited: a bundle loads this module, and waits for none.
if (process.argv[1] === fileURLToPath(import.meta.url)) void build(dirname(dirname(fileURLToPath(import.meta.url))))
