// Makes a checkout runnable: packages once per lock file, compiled sources once per change. Everything it says goes to stderr,
// so that `berth info --json` stays clean.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { build, sourceHash } from './build.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const verb = process.argv[2]

if (!ready()) {
  const release = await lock(join(root, '.prepare.lock'))
  try {
    if (!packagesInstalled()) await installPackages()
    if (!compiled()) await compile()
  } catch (error) {
    say(error instanceof Error ? error.message : String(error))
    process.exitCode = 1
  } finally {
    release()
  }
}

function ready() {
  return packagesInstalled() && compiled()
}

/** npm writes its hidden lock file last, so an interrupted install has none, and one of another lock file differs from ours. */
function packagesInstalled() {
  const wanted = readJson(join(root, 'package-lock.json'))?.packages ?? {}
  const present = readJson(join(root, 'node_modules/.package-lock.json'))?.packages
  if (!present) return false
  return Object.entries(wanted).every(
    ([path, entry]) => path === '' || entry.optional || entry.link || present[path]?.version === entry.version,
  )
}

async function installPackages() {
  say('Installing packages from the lock file (once; this can take some minutes) ...')
  const npm = join(dirname(process.execPath), 'npm')
  const args = ['ci', '--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error']
  for (let attempt = 1; ; attempt++) {
    const code = await run(existsSync(npm) ? npm : 'npm', args, 'still installing packages')
    if (code === 0) break
    if (attempt === 3)
      throw new Error('npm ci failed three times; its messages stand above. Run the same command again to continue.')
    say(`npm ci ended with ${code}; trying again ...`)
  }
  say('Packages are installed.')
}

function compiled() {
  return readText(join(root, 'dist/.source-hash')) === sourceHash(root)
}

async function compile() {
  say('Compiling ...')
  try {
    await build(root)
  } catch (error) {
    // The test run reports type errors itself, beside everything else that it finds.
    if (verb !== 'test' || !existsSync(join(root, 'dist/cli/main.js'))) throw error
    say(`${error.message} Going on with the last build, so that the tests can say more.`)
  }
}

/** Runs a command, its output on stderr, with a sign of life every 15 s. Resolves to the exit code. */
function run(command, args, alive) {
  return new Promise((resolve, reject) => {
    const started = Date.now()
    const timer = setInterval(() => say(`  ... ${alive} (${Math.round((Date.now() - started) / 1000)} s)`), 15_000)
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 2, 2] })
    child.on('error', reject)
    child.on('close', code => {
      clearInterval(timer)
      resolve(code ?? 1)
    })
  })
}

/** One preparation at a time; the lock of a process that is gone is taken over. */
async function lock(path) {
  for (;;) {
    try {
      writeFileSync(path, String(process.pid), { flag: 'wx' })
      return () => rmSync(path, { force: true })
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
      const holder = Number(readText(path))
      if (holder && !existsSync(`/proc/${holder}`)) rmSync(path, { force: true })
      else await sleep(200)
    }
  }
}

function readText(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return null
  }
}

function say(line) {
  process.stderr.write(`${line}\n`)
}
