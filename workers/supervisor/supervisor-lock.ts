import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { isAlive, type ProcessRecord, readRecord, removeRecord, writeRecord } from './process-record.ts'

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

/** Between taking the lock and writing its record a supervisor needs milliseconds; one that takes longer stands still. */
const recordWithinMs = 10_000

/**
 * Makes this process the one supervisor of the folder; rejects with `AlreadyRunning`. Resolves to the release. The kernel holds the
 * lock of `supervisor.lock` and frees it with this process, however that ends. The record beside it only tells who it is, so one
 * that a killed supervisor left is written over by whoever holds the lock. The file of the lock is never removed: of two
 * processes one would lock the old file and one the new.
 */
export async function lockSupervisor(runFolder: string): Promise<() => void> {
  mkdirSync(runFolder, { recursive: true })
  // Node closes it in every child that it starts: none of them keeps the lock.
  const file = openSync(join(runFolder, 'supervisor.lock'), 'a', 0o600)
  try {
    for (const deadline = Date.now() + recordWithinMs; ; await sleep(20)) {
      const locked = await tryLock(file)
      // Also one that holds the lock and has no record yet, or one of a version that made records only.
      const holder = runningSupervisor(runFolder)
      if (holder) throw new AlreadyRunning(holder)
      if (locked) break
      if (Date.now() > deadline)
        throw new Error(`Another process holds ${runFolder}/supervisor.lock and does not say who it is.`)
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

/** Exit code of flock(1) where another process holds the lock. */
const heldElsewhere = 1

/**
 * Locks an open file, which Node cannot do itself: the lock belongs to the open file and not to the program that asked for it.
 * Resolves to false when somebody else holds it.
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
      else reject(new Error(`The data folder cannot be locked: flock ended with ${code}.`))
    })
  })
}
