import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { isAlive, type ProcessRecord, readRecord, removeRecord, writeRecord } from './process-record.ts'

export class AlreadyRunning extends Error {
  override name = 'AlreadyRunning'
  constructor(readonly record: ProcessRecord) {
    super(`Berth is already running (process ${record.pid}).`)
  }
}

/** The running supervisor of a data folder, or null. */
export function runningSupervisor(runFolder: string): ProcessRecord | null {
  const record = readRecord(runFolder, 'supervisor')
  return record && isAlive(record) ? record : null
}

/** A supervisor writes its record milliseconds after taking the lock; one that takes this long is frozen. */
const recordWithinMs = 10_000

/**
 * Makes this process the only supervisor of the folder; rejects with `AlreadyRunning`. Resolves to a function that releases it. The kernel
 * holds the lock of `supervisor.lock` and releases it when this process ends, however that happens. The record next to it only identifies
 * the process, so the holder of the lock overwrites the record of a killed supervisor. The lock file is never removed: of two processes
 * one could then lock the old file and one the new.
 */
export async function lockSupervisor(runFolder: string): Promise<() => void> {
  mkdirSync(runFolder, { recursive: true })
  // Node closes the file in its children, so none of them holds the lock.
  const file = openSync(join(runFolder, 'supervisor.lock'), 'a', 0o600)
  try {
    for (const deadline = Date.now() + recordWithinMs; ; await sleep(20)) {
      const locked = await tryLock(file)
      // Also a holder that has no record yet, or one of a version that only wrote records.
      const holder = runningSupervisor(runFolder)
      if (holder) throw new AlreadyRunning(holder)
      if (locked) break
      if (Date.now() > deadline) throw new Error(`An unknown process holds the lock of ${runFolder}/supervisor.lock.`)
    }
    writeRecord(runFolder, { name: 'supervisor', pid: process.pid, stopSignal: 'SIGTERM', graceSeconds: 60 })
  } catch (error) {
    closeSync(file)
    throw error
  }
  return () => {
    removeRecord(runFolder, 'supervisor')
    closeSync(file)
  }
}

/** Exit code of flock(1) if another process holds the lock. */
const heldElsewhere = 1

/**
 * Locks an open file with flock(1), as Node has no such function: the lock belongs to the open file, not to the program that requested it.
 * Resolves to false when another process holds it.
 */
function tryLock(file: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const flock = startProcess('flock', ['--exclusive', '--nonblock', '3'], {
      env: systemEnvironment,
      stdio: ['ignore', 'ignore', 'ignore', file],
    })
    flock.once('error', cause => reject(new Error('Berth needs the program flock (package util-linux).', { cause })))
    flock.once('exit', code => {
      if (code === 0 || code === heldElsewhere) resolve(code === 0)
      else reject(new Error(`The data folder cannot be locked: flock exited with ${code}.`))
    })
  })
}
