import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { processStat, startTicks } from '../../lib/process-stat.ts'

/** One process of ours on disk, so that a later command can find it, and never mistakes a reused pid for it. */
export interface ProcessRecord {
  name: string
  pid: number
  /** Start time of the process in clock ticks since boot, as the kernel tells it. */
  startTicks: string
  stopSignal: NodeJS.Signals
  graceSeconds: number
}

/** Whether a living process stands still, by a signal or a debugger, and so answers to nothing. */
export function isFrozen({ pid }: Pick<ProcessRecord, 'pid'>): boolean {
  return /^[Tt]$/.test(processStat(pid)?.state ?? '')
}

export function isAlive(record: ProcessRecord): boolean {
  return startTicks(record.pid) === record.startTicks
}

/** Writes `<name>.json`; a process that has ended already leaves no record. */
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

/** Every record of the folder, also of processes that are gone. */
export function readRecords(folder: string): ProcessRecord[] {
  let names: string[] = []
  try {
    names = readdirSync(folder).filter(name => name.endsWith('.json'))
  } catch {
    return []
  }
  return names.map(name => readRecord(folder, name.slice(0, -'.json'.length))).filter(record => record !== null)
}

/** Ends a recorded process and its group: its own signal, then kill after its grace. Resolves once it is gone. */
export async function endRecorded(record: ProcessRecord): Promise<void> {
  if (isAlive(record)) signal(record.pid, record.stopSignal)
  const deadline = Date.now() + record.graceSeconds * 1000
  while (isAlive(record) && Date.now() < deadline) await sleep(20)
  if (isAlive(record)) signal(-record.pid, 'SIGKILL')
  while (isAlive(record)) await sleep(20)
}

/** Sends a signal to a pid, or to a group when negative; false when there is nobody. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}
