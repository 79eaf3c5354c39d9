import { closeSync, existsSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { daemonArguments } from '../../../activities/containers/daemon.ts'
import { networkVariables, ownVariables, startProcess, systemEnvironment } from '../../../lib/child-process.ts'
import { processStat } from '../../../lib/process-stat.ts'
import { isAlive, type ProcessRecord, readRecord, writeRecord } from '../../../workers/supervisor/process-record.ts'
import type { Say } from '../../terminal/terminal.ts'
import { findProgram } from '../system-packages.ts'
import { repairNetworks } from './stored-networks.ts'

export const defaultDockerHost = 'unix:///var/run/docker.sock'

/** The paths of the distribution's engine, so that an engine started later takes over what ours has created. */
export const ownEngine = {
  program: 'dockerd',
  socket: defaultDockerHost,
  dataRoot: '/var/lib/docker',
  execRoot: '/var/run/docker',
  pidFile: '/var/run/docker.pid',
}

export interface EngineOptions {
  runFolder: string
  logFolder: string
  /** The program, socket and files of an engine that we start. */
  engine?: typeof ownEngine
}

/** Our engine while its process is alive, else null. */
export function recordedEngine({ runFolder }: EngineOptions): ProcessRecord | null {
  const record = readRecord(runFolder, 'dockerd')
  return record && isAlive(record) ? record : null
}

const engineVariables = ['PATH', 'HOME', 'TMPDIR', 'DOCKER_TMPDIR', 'DOCKER_RAMDISK', 'DOCKER_CONFIG']

/** Starts an engine that outlives us, unless one runs on its files already, silent as it may be. */
export function startEngine({ runFolder, logFolder, engine = ownEngine }: EngineOptions, say: Say): void {
  forgetDeadEngine(engine)
  if (existsSync(engine.pidFile)) return
  const repaired = repairNetworks(engine.dataRoot)
  if (repaired) say(`The Docker engine ended while it deleted networks; it can now complete that (${repaired})`)
  const log = openSync(join(logFolder, 'dockerd.log'), 'a', 0o640)
  const dockerd = findProgram(engine.program, process.env.PATH) ?? engine.program
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
