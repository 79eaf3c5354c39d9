// Makes a checkout runnable: packages once per lock file, compiled sources once per change. Everything it says goes to stderr,
// so that `berth info --json` stays clean.
import { spawn, spawnSync } from 'node:child_process'
import { closeSync, existsSync, ftruncateSync, openSync, readFileSync, statSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { build, sourceHash } from './build.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const lockPath = join(root, '.prepare.lock')
const verb = process.argv[2]
/** By the signal that ends us, with the exit code that shells give it. */
const endings = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }
/** A sign of life comes this often. */
const aliveMs = 15_000
const seconds = since => `${Math.round((Date.now() - since) / 1000)} s`
/** What is under way and ends with us. */
const underWay = new Set()

if (!ready()) {
  for (const [name, code] of Object.entries(endings)) process.on(name, () => stop(code))
  try {
    mustBeOurs()
    const held = await lock()
    try {
      if (!packagesInstalled()) await installPackages(held)
      if (!compiled()) await compile(held)
    } finally {
      closeSync(held)
    }
  } catch (error) {
    say(error instanceof Error ? error.message : String(error))
    process.exitCode = 1
  }
}

/** Ends what runs for us, as a whole, and leaves nothing half made: the next start begins anew what was not done. */
function stop(code) {
  for (const end of underWay) end()
  say('Stopped; the next start goes on from here.')
  process.exit(code)
}

/** Files of another user would end in the words of the system, somewhere in the middle. */
function mustBeOurs() {
  const { uid } = statSync(root)
  if (process.getuid() === 0 || uid === process.getuid()) return
  throw new Error(
    `The checkout ${root} belongs to ${userName(uid)}, and has to be made ready first: run ./berth once as that user, or clone it anew as ${userName(process.getuid())}.`,
  )
}

function userName(uid) {
  const line = readText('/etc/passwd')
    ?.split('\n')
    .find(entry => entry.split(':')[2] === String(uid))
  return line ? `the user ${line.split(':')[0]}` : `the user with the id ${uid}`
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

async function installPackages(held) {
  write(held, 'installing packages')
  say('Installing packages from the lock file (once; this can take some minutes) ...')
  const npm = join(dirname(process.execPath), 'npm')
  const args = ['ci', '--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error']
  for (let attempt = 1; ; attempt++) {
    const code = await run(existsSync(npm) ? npm : 'npm', args, 'still installing packages', held)
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

async function compile(held) {
  write(held, 'compiling')
  say('Compiling ...')
  try {
    await build(root, underWay)
  } catch (error) {
    // The test run reports type errors itself, beside everything else that it finds.
    if (verb !== 'test' || !existsSync(join(root, 'dist/cli/main.js'))) throw error
    say(`${error.message} Going on with the last build, so that the tests can say more.`)
  }
}

/** Runs a command, its output on stderr, with a sign of life every 15 s. Resolves to the exit code. */
function run(command, args, alive, held) {
  return new Promise((resolve, reject) => {
    const started = Date.now()
    const timer = setInterval(() => say(`  ... ${alive} (${seconds(started)})`), aliveMs)
    // Its own group, ended with us as a whole. It holds the lock too: an npm that outlives us would meet the one of the next attempt.
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 2, 2, held], detached: true })
    const end = () => process.kill(-child.pid, 'SIGKILL')
    underWay.add(end)
    child.on('error', reject)
    child.on('close', code => {
      clearInterval(timer)
      underWay.delete(end)
      resolve(code ?? 1)
    })
  })
}

/**
 * One preparation of a checkout at a time; resolves to the file whose lock the kernel holds for us and for what we start, and frees
 * with the last of these. A process that waits prints for which one.
 */
async function lock() {
  const file = openSync(lockPath, 'a+', 0o600)
  const started = Date.now()
  for (let told = 0; !lockedNow(file); await sleep(200)) {
    if (told > 0 && Date.now() - told < aliveMs) continue
    const holder = readText(lockPath)?.trim() || 'it has just begun'
    say(
      told === 0
        ? `Another ./berth makes this checkout ready (${holder}); waiting for it ...`
        : `  ... still waiting (${holder}; ${seconds(started)})`,
    )
    told = Date.now()
  }
  return file
}

function lockedNow(file) {
  const { status, error } = spawnSync('flock', ['--exclusive', '--nonblock', '3'], {
    stdio: ['ignore', 'ignore', 2, file],
  })
  if (error) throw new Error('Berth needs the program flock (package util-linux).')
  if (status > 1) throw new Error(`${lockPath} cannot be locked: flock ended with ${status}.`)
  return status === 0
}

/** Shows processes that wait what is done here. */
function write(held, doing) {
  ftruncateSync(held)
  writeSync(held, `process ${process.pid}, ${doing}`)
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
