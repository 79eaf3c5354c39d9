import { closeSync, openSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { daemonArguments } from '../../activities/container-daemon.ts'
import { networkVariables, ownVariables, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { isAlive, readRecord, writeRecord } from '../../workers/process-record.ts'
import { type Say, step } from '../terminal.ts'
import { findProgram, installPackages, isRoot, MissingPart } from './system-packages.ts'

export const defaultDockerHost = 'unix:///var/run/docker.sock'

/** Where the distribution's engine has its things, so that a later one takes over what ours has made. */
const ownEngine = {
  socket: defaultDockerHost,
  dataRoot: '/var/lib/docker',
  execRoot: '/var/run/docker',
  pidFile: '/var/run/docker.pid',
} as const

export interface DockerOptions {
  /** Undefined = the local socket, started by us when nothing answers there. */
  dockerHost: string | undefined
  runFolder: string
  logFolder: string
}

/** A container engine that answers. One that we start outlives us: applications are not our children. */
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
      'The Docker engine does not answer on /var/run/docker.sock. Start it with:  sudo systemctl start docker  - and let this user in with:  sudo usermod -aG docker $USER  (then log in again)',
    )
  say('Starting the Docker engine')
  startDaemon(options)
  const up = await step(say, 'waiting for the Docker engine', () => answersWithin(address, 60))
  if (!up)
    throw new MissingPart(
      `The Docker engine was started but does not answer. Its log: ${join(options.logFolder, 'dockerd.log')}`,
    )
}

/** Starts our engine again when it has died; a person's own engine is left to its owner. */
export function reviveDocker(options: DockerOptions, say: Say): void {
  const record = readRecord(options.runFolder, 'dockerd')
  if (!record || isAlive(record)) return
  say('The Docker engine has ended; starting it again')
  startDaemon(options)
}

const engineVariables = ['PATH', 'HOME', 'TMPDIR', 'DOCKER_TMPDIR', 'DOCKER_RAMDISK', 'DOCKER_CONFIG']

function startDaemon({ runFolder, logFolder }: DockerOptions): void {
  const log = openSync(join(logFolder, 'dockerd.log'), 'a', 0o640)
  const dockerd = findProgram('dockerd', process.env.PATH) ?? 'dockerd'
  const child = startProcess(dockerd, daemonArguments(ownEngine), {
    env: { ...systemEnvironment, ...ownVariables([...networkVariables, ...engineVariables]) },
    stdio: ['ignore', log, log],
    detached: true,
  })
  child.on('error', () => undefined) // seen as "does not answer"
  child.unref()
  closeSync(log)
  if (child.pid) writeRecord(runFolder, { name: 'dockerd', pid: child.pid, stopSignal: 'SIGTERM', graceSeconds: 30 })
}

async function answersWithin(address: string, seconds: number): Promise<boolean> {
  for (const deadline = Date.now() + seconds * 1000; Date.now() < deadline; await sleep(100)) {
    if (await answers(address)) return true
  }
  return false
}

/** Whether an engine answers its ping within 2 s. */
export async function answers(address: string): Promise<boolean> {
  return (await ask(address, '/_ping')) !== null
}

/** The version of the engine that answers there, such as `28.5.1`; null when none does within 2 s. */
export async function engineVersion(address: string): Promise<string | null> {
  const said = await ask(address, '/version')
  return said === null ? null : /"Version":"([^"]+)"/.exec(said)![1]!
}

/** What an engine answers with 200 within 2 s, else null. */
function ask(address: string, path: string): Promise<string | null> {
  const url = new URL(address)
  const target =
    url.protocol === 'unix:' ? { socketPath: url.pathname } : { host: url.hostname, port: url.port || 2375 }
  return new Promise(resolve => {
    const call = request({ ...target, path, timeout: 2000 }, response => {
      text(response).then(
        said => resolve(response.statusCode === 200 ? said : null),
        () => resolve(null),
      )
    })
    call.once('timeout', () => call.destroy())
    call.once('error', () => resolve(null))
    call.end()
  })
}
