import { linkSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isAlive, type ProcessRecord, readRecord, startTicks } from './process-record.ts'

export class AlreadyRunning extends Error {
  override name = 'AlreadyRunning'
  constructor(readonly record: ProcessRecord) {
    super(`Berth is running already (process ${record.pid}).`)
  }
}

/** The living supervisor of a data folder, or null. */
export function runningSupervisor(runFolder: string): ProcessRecord | null {
  const record = readRecord(runFolder, 'supervisor')
  return record && isAlive(record) ? record : null
}

/** Makes this process the one supervisor of the folder; throws `AlreadyRunning`. Returns the release. */
export function lockSupervisor(runFolder: string): () => void {
  mkdirSync(runFolder, { recursive: true })
  const path = join(runFolder, 'supervisor.json')
  const own = `${path}.${process.pid}`
  const record = {
    name: 'supervisor',
    pid: process.pid,
    startTicks: startTicks(process.pid) ?? '',
    stopSignal: 'SIGTERM',
    graceSeconds: 60,
  }
  writeFileSync(own, JSON.stringify(record), { mode: 0o600 })
  try {
    for (;;) {
      try {
        linkSync(own, path) // fails when there is one, whole when it succeeds
        return () => rmSync(path, { force: true })
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
        const holder = runningSupervisor(runFolder)
        if (holder) throw new AlreadyRunning(holder)
        takeAway(path)
      }
    }
  } finally {
    rmSync(own, { force: true })
  }
}

/** Of two processes that find the same stale lock, one wins the rename; the other looks again. */
function takeAway(path: string): void {
  const aside = `${path}.stale-${process.pid}`
  try {
    renameSync(path, aside)
    rmSync(aside, { force: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
