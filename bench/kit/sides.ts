import type { ChildProcess } from 'node:child_process'
import { removeThrowAway, startTestPostgres, templateDatabase, throwAwayFolder } from '../../cli/test/test-postgres.ts'
import { heapFlags } from '../../workers/supervisor/heap.ts'
import { Supervisor } from '../../workers/supervisor/supervisor.ts'
import { threadPool } from '../../workers/supervisor/thread-pool.ts'
import { startApi, startProgram } from './programs.ts'

/** A throw-away Postgres and the servers on it that a bench compares. Every process is started with the same flags and threads. */
export interface Sides {
  /** Of a migrated database. It syncs what it commits, as in production, for both sides. */
  databaseUrl: string
  /** Thrown away in the end. */
  folder: string
  masterKey: string
  /** A bare server; resolves to its address. `args` come after the database's address. */
  bare(file: string, args?: readonly string[]): Promise<string>
  /** One API process of Berth, with limits out of the way. */
  berth(
    settings?: Record<string, string>,
  ): Promise<{ child: ChildProcess; url: string; blobUrl: string; publicUrl: string }>
  /** Any other program of the bench; resolves to what it reported first. */
  program<T>(file: string, args: readonly string[]): Promise<T>
}

/** Starts what a bench needs, and takes it away when its work ends. */
export async function withSides(work: (sides: Sides) => Promise<void>): Promise<void> {
  const masterKey = 'ab'.repeat(32)
  const folder = throwAwayFolder()
  const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  const children: ChildProcess[] = []
  try {
    const { adminUrl } = await startTestPostgres(supervisor, folder, () => {}, true)
    const database = new URL(adminUrl)
    database.pathname = `/${templateDatabase}`
    const databaseUrl = database.href
    const program = async <T>(file: string, args: readonly string[]) => {
      const { child, reported } = await startProgram<T>(file, args, threadPool, heapFlags)
      children.push(child)
      return reported
    }
    await work({
      databaseUrl,
      folder,
      masterKey,
      program,
      async bare(file, args = []) {
        const { port } = await program<{ port: number }>(file, [databaseUrl, ...args])
        return `http://127.0.0.1:${port}`
      },
      async berth(settings) {
        const api = await startApi({ databaseUrl, masterKey, folder, settings }, threadPool, heapFlags)
        children.push(api.child)
        return api
      },
    })
  } finally {
    for (const child of children) child.kill('SIGKILL')
    await supervisor.stop()
    removeThrowAway(folder)
  }
}

/** Figures of each side, one of each round. */
export type Figures<Side extends string, T> = Record<Side, T[]>

/**
 * Measures each side once in every round, the last of one round first in the next: whatever a side leaves behind (caches, writes
 * that are still to be done) meets each as often. The first `warmUp` rounds are not kept.
 */
export async function inTurn<Side extends string, T>(
  rounds: number,
  sides: Record<Side, () => Promise<T>>,
  { warmUp = 1 } = {},
): Promise<Figures<Side, T>> {
  const names = Object.keys(sides) as Side[]
  const figures = Object.fromEntries(names.map(name => [name, [] as T[]])) as Figures<Side, T>
  for (let round = -warmUp; round < rounds; round++) {
    for (const name of names) {
      const figure = await sides[name]()
      if (round >= 0) figures[name].push(figure)
    }
    names.reverse()
  }
  return figures
}

/** A share of the values is no larger: 0.5 the median, 0.99 the 99th percentile. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** How many times as much as of `other` is needed of `one`: the median of rounds, whose two sides are neighbours in time. What else a machine does changes from round to round. */
export function timesAsMuch(one: readonly number[], other: readonly number[]): number {
  const ratios = one.map((figure, round) => figure / other[round]!).sort((a, b) => a - b)
  return (ratios[(ratios.length - 1) >> 1]! + ratios[ratios.length >> 1]!) / 2
}

/** What is printed next to a figure that has a goal. */
export const verdict = (goal: string, met: boolean): string => `goal: ${goal}, ${met ? 'met' : 'MISSED'}`
