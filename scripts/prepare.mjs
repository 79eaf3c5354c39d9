// Makes a checkout runnable: packages once per lock file, compiled sources once per change. Everything it says goes to stderr,
// so that `berth info --json` stays clean.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { build, sourceHash } from './build.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const lockPath = join(root, '.prepare.lock')
const verb = process.argv[2]

if (!ready()) {
  const release = await lock()
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

/** npm notes at the end what it installed; the files are looked for too, since two installs that met leave a note without them. */
function packagesInstalled() {
  const wanted = readJson(join(root, 'package-lock.json'))?.packages ?? {}
  const present = readJson(join(root, 'node_modules/.package-lock.json'))?.packages
  if (!present) return false
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === '' || entry.optional || entry.link) return true
    return present[path]?.version === entry.version && existsSync(join(root, path, 'package.json'))
  })
}

async function installPackages() {
  say('Installing packages from the lock file (once; this can take some minutes) ...')
  const npm = join(dirname(process.execPath), 'npm')
  const args = ['ci', '--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error']
  for (let attempt = 1; ; attempt++) {
    const code = await run(existsSync(npm) ? npm : 'npm', args, 'still installing packages')
    if (code === 0 && packagesInstalled()) break
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
    // Its own group, ended with us as a whole: an npm that goes on alone would meet the one of the next attempt.
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 2, 2], detached: true })
    const end = () => {
      process.kill(-child.pid, 'SIGKILL')
      rmSync(lockPath, { force: true })
      process.exit(130)
    }
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, end)
    if (child.pid) writeFileSync(lockPath, `${process.pid} ${child.pid}`)
    child.on('error', reject)
    child.on('close', code => {
      clearInterval(timer)
      for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(name, end)
      resolve(code ?? 1)
    })
  })
}

/** One preparation at a time. The lock names its holder and what that runs; it is taken over when both are gone. */
async function lock() {
  for (;;) {
    try {
      writeFileSync(lockPath, String(process.pid), { flag: 'wx' })
      return () => rmSync(lockPath, { force: true })
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
      const holders = readText(lockPath)?.split(' ').filter(Boolean) ?? []
      if (holders.length && holders.every(pid => !existsSync(`/proc/${pid}`))) rmSync(lockPath, { force: true })
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
