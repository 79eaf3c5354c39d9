import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { processStat, startTicks } from '../../lib/process-stat.ts'

/** The record of one of our processes on disk, by which a later command finds it without mistaking a reused pid for it. */
export interface ProcessRecord {
  name: string
  pid: number
  /** Start time of the process in clock ticks since boot, as the kernel reports it. */
  startTicks: string
  stopSignal: NodeJS.Signals
  graceSeconds: number
}

/** Whether a live process is stopped by a signal or a debugger, and so does not respond. */
export function isFrozen({ pid }: Pick<ProcessRecord, 'pid'>): boolean {
  return /^[Tt]$/.test(processStat(pid)?.state ?? '')
}

export function isAlive(record: ProcessRecord): boolean {
  return startTicks(record.pid) === record.startTicks
}

/** Writes `<name>.json`, unless the process has already ended. */
export function writeRecord(folder: string, record: Omit<ProcessRecord, 'startTicks'>): void {
  const ticks = startTicks(record.pid)
  if (ticks === null) return
  const path = join(folder, `${record.name}.json`)
  writeFileSync(`${path}.new`, JSON.stringify({ ...record, startTicks: ticks }), { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

export function removeRecord(folder: string, name: string): void {
  rmSync(join(folder, `${name}.json`), { force: true })
}

export function readRecord(folder: string, name: string): ProcessRecord | null {
  try {
    const record = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as ProcessRecord
    return typeof record.pid === 'number' && typeof record.startTicks === 'string' ? record : null
  } catch {
    return null
  }
}

/** Every record of the folder, including those of processes that have ended. */
export function readRecords(folder: string): ProcessRecord[] {
  let names: string[] = []
  try {
    names = readdirSync(folder).filter(name => name.endsWith('.json'))
  } catch {
    return []
  }
  return names.map(name => readRecord(folder, name.slice(0, -'.json'.length))).filter(record => record !== null)
}

/** Ends a recorded process and its group: first with its own signal, after its grace with SIGKILL. Resolves once it has ended. */
export async function endRecorded(record: ProcessRecord): Promise<void> {
  if (isAlive(record)) signal(record.pid, record.stopSignal)
  const deadline = Date.now() + record.graceSeconds * 1000
  while (isAlive(record) && Date.now() < deadline) await sleep(20)
  if (isAlive(record)) signal(-record.pid, 'SIGKILL')
  while (isAlive(record)) await sleep(20)
}

/** Sends a signal to a pid, or to a group when negative; false if there is no such process. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}
