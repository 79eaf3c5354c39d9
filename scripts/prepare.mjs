// Prepares a checkout: packages once per lock file, compiled sources once per change. All its output goes to stderr,
// so that `berth info --json` stays clean.
import { spawn, spawnSync } from 'node:child_process'
import { closeSync, existsSync, ftruncateSync, openSync, statSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { build } from './build.mjs'
import { isCompiled, isReady, packagesInstalled, readText } from './ready.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const lockPath = join(root, '.prepare.lock')
const verb = process.argv[2]
/** Exit codes by the signal that ends us, as shells use them. */
const endings = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }
/** How often progress is printed. */
const progressMs = 15_000
const seconds = since => `${Math.round((Date.now() - since) / 1000)} s`
/** Functions that end the work in progress, which must not outlive us. */
const inProgress = new Set()

if (!isReady(root)) {
  for (const [name, code] of Object.entries(endings)) process.on(name, () => stop(code))
  try {
    assertOwner()
    const lockFile = await lock()
    try {
      if (!packagesInstalled(root)) await installPackages(lockFile)
      if (!isCompiled(root)) await compile(lockFile)
    } finally {
      closeSync(lockFile)
    }
  } catch (error) {
    say(error instanceof Error ? error.message : String(error))
    process.exitCode = 1
  }
}

/** Ends our children with their process groups, and leaves nothing half done: the next start repeats unfinished work. */
function stop(code) {
  for (const end of inProgress) end()
  say('Stopped. The next start continues from here.')
  process.exit(code)
}

/** Without this check, files of another user would cause a system error halfway. */
function assertOwner() {
  const { uid } = statSync(root)
  if (process.getuid() === 0 || uid === process.getuid()) return
  throw new Error(
    `The checkout ${root} belongs to ${userName(uid)}, and is not prepared yet: run ./berth once as that user, or make another clone as ${userName(process.getuid())}.`,
  )
}

function userName(uid) {
  const line = readText('/etc/passwd')
    ?.split('\n')
    .find(entry => entry.split(':')[2] === String(uid))
  return line ? `the user ${line.split(':')[0]}` : `the user with the id ${uid}`
}

async function installPackages(lockFile) {
  write(lockFile, 'installing packages')
  say('Installing packages from the lock file (once; this can take a few minutes) ...')
  const npm = join(dirname(process.execPath), 'npm')
  const args = ['ci', '--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error']
  for (let attempt = 1; ; attempt++) {
    const code = await run(existsSync(npm) ? npm : 'npm', args, 'still installing packages', lockFile)
    if (code === 0 && packagesInstalled(root)) break
    if (attempt === 3)
      throw new Error('npm ci failed three times; see its messages above. Run the same command again to continue.')
    say(`npm ci exited with ${code}; trying again ...`)
  }
  say('Packages are installed.')
}

async function compile(lockFile) {
  write(lockFile, 'compiling')
  say('Compiling ...')
  try {
    await build(root, inProgress)
  } catch (error) {
    // A test run reports type errors itself, along with its other results.
    if (verb !== 'test' || !existsSync(join(root, 'dist/cli/main.js'))) throw error
    say(`${error.message} Continuing with the last build, so that the tests can report more.`)
  }
}

/** Runs a command with its output on stderr, and prints progress every 15 s. Resolves to the exit code. */
function run(command, args, progress, lockFile) {
  return new Promise((resolve, reject) => {
    const started = Date.now()
    const timer = setInterval(() => say(`  ... ${progress} (${seconds(started)})`), progressMs)
    // A process group of its own, which we end as a whole. It inherits the lock: an npm that outlives us would run alongside that of the next attempt.
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 2, 2, lockFile], detached: true })
    const end = () => process.kill(-child.pid, 'SIGKILL')
    inProgress.add(end)
    child.on('error', reject)
    child.on('close', code => {
      clearInterval(timer)
      inProgress.delete(end)
      resolve(code ?? 1)
    })
  })
}

/**
 * Permits one preparation of a checkout at a time. Resolves to the locked file; the kernel releases the lock when we and our children
 * have ended. A waiting process prints which one it waits for.
 */
async function lock() {
  const file = openSync(lockPath, 'a+', 0o600)
  const started = Date.now()
  for (let reportedAt = 0; !tryLock(file); await sleep(200)) {
    if (reportedAt > 0 && Date.now() - reportedAt < progressMs) continue
    const holder = readText(lockPath)?.trim() || 'just started'
    say(
      reportedAt === 0
        ? `Another ./berth is preparing this checkout (${holder}); waiting for it ...`
        : `  ... still waiting (${holder}; ${seconds(started)})`,
    )
    reportedAt = Date.now()
  }
  return file
}

function tryLock(file) {
  const { status, error } = spawnSync('flock', ['--exclusive', '--nonblock', '3'], {
    stdio: ['ignore', 'ignore', 2, file],
  })
  if (error) throw new Error('Berth needs the program flock (package util-linux).')
  if (status > 1) throw new Error(`${lockPath} cannot be locked: flock exited with ${status}.`)
  return status === 0
}

/** Tells waiting processes what is being done. */
function write(lockFile, activity) {
  ftruncateSync(lockFile)
  writeSync(lockFile, `process ${process.pid}, ${activity}`)
}

function say(line) {
  process.stderr.write(`${line}\n`)
}
