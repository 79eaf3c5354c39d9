import { copyFileSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, diskFull } from '../../lib/folders/error-codes.ts'
import { processLogs } from '../../policy/installation/process-logs.ts'
import { endRecorded, isAlive, type ProcessRecord, readRecords, removeRecord } from './process-record.ts'
import { type ProcessSpec, SupervisedProcess, type Surroundings } from './supervised-process.ts'

const rotateEveryMs = 10_000

/** Records of processes that are not our children: they are never ended as leftovers. */
const notChildren = new Set(['supervisor', 'dockerd'])

/** Starts processes in the order of their dependencies, restarts those that die, and stops all in reverse order. */
export class Supervisor {
  private readonly processes = new Map<string, { process: SupervisedProcess; ready: Promise<void> }>()
  private readonly rotation: NodeJS.Timeout
  private stopped: Promise<void> | null = null

  constructor(private readonly around: Surroundings) {
    mkdirSync(around.runFolder, { recursive: true })
    mkdirSync(around.logFolder, { recursive: true })
    this.rotation = setInterval(
      () => rotateLogs(around.logFolder, processLogs.bytes, processLogs.pieces, around.say),
      rotateEveryMs,
    )
    this.rotation.unref()
  }

  /** Starts a process once its dependencies answer; resolves when it answers itself. */
  start(spec: ProcessSpec): Promise<void> {
    const process = new SupervisedProcess(spec, this.around)
    const needed = spec.needs.map(
      name => this.processes.get(name)?.ready ?? Promise.reject(new Error(`${spec.name} needs ${name}`)),
    )
    const ready = Promise.all(needed).then(() => (this.stopped ? new Promise<void>(() => {}) : process.start()))
    this.processes.set(spec.name, { process, ready })
    return ready
  }

  /** Stops everything, dependents first. Repeated calls share one stop. */
  stop(): Promise<void> {
    this.stopped ??= this.stopAll()
    return this.stopped
  }

  /** Kills everything immediately, at a second signal. */
  kill(): void {
    for (const { process } of this.processes.values()) process.kill()
  }

  private async stopAll(): Promise<void> {
    clearInterval(this.rotation)
    const stops = new Map<string, Promise<void>>()
    const stopOne = (name: string): Promise<void> => {
      const present = stops.get(name)
      if (present) return present
      const dependents = [...this.processes.values()].filter(({ process }) => process.spec.needs.includes(name))
      const stop = Promise.all(dependents.map(({ process }) => stopOne(process.spec.name))).then(() =>
        this.processes.get(name)?.process.stop(),
      )
      stops.set(name, stop)
      return stop
    }
    await Promise.all([...this.processes.keys()].map(stopOne))
  }
}

/** Ends the processes that a killed supervisor left running, and removes all their records. Resolves to the names of the ended ones. */
export async function endLeftovers(runFolder: string): Promise<string[]> {
  const records = readRecords(runFolder).filter(record => !notChildren.has(record.name))
  const alive = records.filter(isAlive)
  await Promise.all(alive.map(endRecorded))
  for (const record of records) removeRecord(runFolder, record.name)
  return alive.map(record => record.name)
}

/** The supervised processes that are running. */
export function runningProcesses(runFolder: string): ProcessRecord[] {
  return readRecords(runFolder).filter(record => !notChildren.has(record.name) && isAlive(record))
}

/**
 * Limits every `*.log` of a folder to `maxBytes`, and retains `keep` older files (`x.log.1` is the newest).
 * The file is copied and truncated, not renamed: its writer has it open for appending and outlives the supervisor. What fails is said,
 * and never thrown.
 */
export function rotateLogs(folder: string, maxBytes: number, keep: number, say: Surroundings['say']): void {
  for (const name of readdirSync(folder).filter(name => name.endsWith('.log'))) {
    try {
      rotateLog(join(folder, name), maxBytes, keep, say)
    } catch (error) {
      say(`The log ${name} could not be rotated: ${(error as Error).message}`)
    }
  }
}

function rotateLog(path: string, maxBytes: number, keep: number, say: Surroundings['say']): void {
  if (statSync(path).size <= maxBytes) return
  const copy = `${path}.0`
  try {
    copyFileSync(path, copy)
  } catch (error) {
    rmSync(copy, { force: true })
    if (!diskFull.has(codeOf(error))) throw error
    say(`${path} is emptied without a copy, for which the disk has no room.`)
    truncateSync(path, 0)
    return
  }
  for (let age = keep - 1; age >= 0; age--) {
    if (existsSync(`${path}.${age}`)) renameSync(`${path}.${age}`, `${path}.${age + 1}`)
  }
  truncateSync(path, 0)
}
