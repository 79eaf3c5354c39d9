import { closeSync, openSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setInterval as every, setTimeout as sleep } from 'node:timers/promises'
import { daemonArguments } from '../../activities/containers/daemon.ts'
import { networkVariables, ownVariables, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { processStat } from '../../lib/process-stat.ts'
import { logEnd } from '../../workers/supervisor/log-end.ts'
import {
  endRecorded,
  isAlive,
  type ProcessRecord,
  readRecord,
  signal,
  writeRecord,
} from '../../workers/supervisor/process-record.ts'
import { type Say, step } from '../terminal/terminal.ts'
import { mendNetworks } from './engine-networks.ts'
import { findProgram, installPackages, isRoot, MissingPart } from './system-packages.ts'

export const defaultDockerHost = 'unix:///var/run/docker.sock'

/** The paths of the distribution's engine, so that an engine started later takes over what ours has created. */
const ownEngine = {
  socket: defaultDockerHost,
  dataRoot: '/var/lib/docker',
  execRoot: '/var/run/docker',
  pidFile: '/var/run/docker.pid',
}

export interface DockerOptions {
  /** Undefined = the local socket; we start an engine if none answers there. */
  dockerHost: string | undefined
  runFolder: string
  logFolder: string
  /** The socket, folders and pid file of an engine that we start. */
  engine?: typeof ownEngine
}

/** Resolves once a container engine answers. An engine that we start outlives us: applications are not our children. */
export async function ensureDocker(options: DockerOptions, say: Say): Promise<void> {
  const address = options.dockerHost ?? defaultDockerHost
  if (await answers(address)) return
  if (options.dockerHost)
    throw new MissingPart(`The container engine at DOCKER_HOST=${options.dockerHost} does not answer.`)
  if (!findProgram('dockerd', process.env.PATH)) {
    await installPackages({ what: 'The Docker engine', packages: ['docker.io', 'iptables', 'iproute2'] }, say)
    if (await answersWithin(address, 5)) return // the distribution started it
  }
  if (!isRoot())
    throw new MissingPart(
      'The Docker engine does not answer on /var/run/docker.sock. Start it with:  sudo systemctl start docker  - and give this user access with:  sudo usermod -aG docker $USER  (then log in again)',
    )
  say('Starting the Docker engine')
  startDaemon(options, say)
  const up = await step(say, 'waiting for the Docker engine', () =>
    answersWithin(address, 60, () => recordedEngine(options) !== null),
  )
  if (up) return
  const end = recordedEngine(options) ? 'does not answer' : 'has exited'
  throw new MissingPart(`The Docker engine was started but ${end}. ${logEnd(join(options.logFolder, 'dockerd.log'))}`)
}

/** Our engine while its process is alive, else null. */
function recordedEngine({ runFolder }: DockerOptions): ProcessRecord | null {
  const record = readRecord(runFolder, 'dockerd')
  return record && isAlive(record) ? record : null
}

const lookEveryMs = 2000
/** Looks without an answer, each of them 4 s after the one before, after which an engine is ended: a minute. */
const silentLooks = 15

interface Watch {
  over?: AbortSignal
  looks?: number
}

/**
 * Starts our engine again when it has ended, and ends it when it no longer answers: those before 20.10.27 deadlock when one
 * container joins a network while another leaves it (moby 46661), and then start nothing. An engine that we have not started is left
 * alone. Resolves after `over`.
 */
export async function keepDocker(options: DockerOptions, say: Say, { over, looks = silentLooks }: Watch = {}) {
  let silent = 0
  let hasServed = false // an engine that is starting does not answer yet
  const look = async () => {
    if (!readRecord(options.runFolder, 'dockerd')) return
    const engine = recordedEngine(options)
    if (!engine) {
      say('The Docker engine has exited; starting it again')
      hasServed = false
      startDaemon(options, say)
    } else if (await answersAboutNetworks((options.engine ?? ownEngine).socket)) {
      hasServed = true
      silent = 0
    } else if (hasServed && ++silent >= looks) {
      silent = 0
      say(`The Docker engine no longer answers; ending it. Its stacks are in ${await stacksOf(engine, options)}`)
      await endRecorded({ ...engine, graceSeconds: 0 })
    }
  }
  try {
    for await (const _ of every(lookEveryMs, null, { signal: over, ref: false }))
      await look().catch(error => say(`The Docker engine cannot be kept running: ${error.message}`))
  } catch (error) {
    if (!over?.aborted) throw error
  }
}

/** Lets the engine write where its goroutines stand, for those who ask why. Returns the files. */
async function stacksOf({ pid }: ProcessRecord, { engine = ownEngine }: DockerOptions): Promise<string> {
  signal(pid, 'SIGUSR1')
  await sleep(1000)
  return join(engine.execRoot, 'goroutine-stacks-*.log')
}

const engineVariables = ['PATH', 'HOME', 'TMPDIR', 'DOCKER_TMPDIR', 'DOCKER_RAMDISK', 'DOCKER_CONFIG']

function startDaemon({ runFolder, logFolder, engine = ownEngine }: DockerOptions, say: Say): void {
  forgetDeadEngine(engine)
  const mended = mendNetworks(engine.dataRoot)
  if (mended) say(`Completed ${mended} networks that the Docker engine has half deleted`)
  const log = openSync(join(logFolder, 'dockerd.log'), 'a', 0o640)
  const dockerd = findProgram('dockerd', process.env.PATH) ?? 'dockerd'
  const child = startProcess(dockerd, daemonArguments(engine), {
    env: { ...systemEnvironment, ...ownVariables([...networkVariables, ...engineVariables]) },
    stdio: ['ignore', log, log],
    detached: true,
  })
  child.on('error', () => undefined) // seen as "does not answer"
  child.unref()
  closeSync(log)
  if (child.pid) writeRecord(runFolder, { name: 'dockerd', pid: child.pid, stopSignal: 'SIGTERM', graceSeconds: 30 })
}

/**
 * Removes the pid files that a killed engine left behind. On a disk they outlive a power cut, and once another process has the
 * same number the engine does not start, or waits for its containerd forever.
 */
export function forgetDeadEngine({ pidFile, execRoot }: { pidFile: string; execRoot: string }): void {
  forgetUnlessRunning(pidFile, 'dockerd')
  forgetUnlessRunning(join(execRoot, 'containerd', 'containerd.pid'), 'containerd')
}

function forgetUnlessRunning(pidFile: string, program: string): void {
  const pid = Number(contentOf(pidFile))
  const runs = pid && contentOf(`/proc/${pid}/comm`) === program && processStat(pid)?.state !== 'Z'
  if (!runs) rmSync(pidFile, { force: true })
}

function contentOf(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return ''
  }
}

async function answersWithin(address: string, seconds: number, mayAnswer = () => true): Promise<boolean> {
  for (const deadline = Date.now() + seconds * 1000; Date.now() < deadline && mayAnswer(); await sleep(100)) {
    if (await answers(address)) return true
  }
  return answers(address)
}

/** Whether an engine answers its ping within 2 s. */
export async function answers(address: string): Promise<boolean> {
  return (await get(address, '/_ping')) !== null
}

/** Whether an engine says within 2 s which networks it has. One whose networks are deadlocked answers its ping all the same. */
export async function answersAboutNetworks(address: string): Promise<boolean> {
  return (await get(address, '/networks')) !== null
}

/** The version of the engine at an address, such as `28.5.1`; null when none answers within 2 s. */
export async function engineVersion(address: string): Promise<string | null> {
  const version = await get(address, '/version')
  return version === null ? null : /"Version":"([^"]+)"/.exec(version)![1]!
}

/** Whether containers keep running when the engine at an address stops; null when it does not answer within 2 s. */
export async function containersLiveOn(address: string): Promise<boolean | null> {
  const info = await get(address, '/info')
  return info === null ? null : /"LiveRestoreEnabled":true/.test(info)
}

/** The body that an engine answers with 200 within 2 s, else null. */
function get(address: string, path: string): Promise<string | null> {
  const url = new URL(address)
  const target =
    url.protocol === 'unix:' ? { socketPath: url.pathname } : { host: url.hostname, port: url.port || 2375 }
  return new Promise(resolve => {
    const call = request({ ...target, path, timeout: 2000 }, response => {
      text(response).then(
        body => resolve(response.statusCode === 200 ? body : null),
        () => resolve(null),
      )
    })
    call.once('timeout', () => call.destroy())
    call.once('error', () => resolve(null))
    call.end()
  })
}
