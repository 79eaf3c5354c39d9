import type { Logger } from 'pino'
import { isAway } from '../../../db/unavailable.ts'
import { failuresInARow } from '../../../policy/rounds.ts'

/** An application or a database, as logs name it. */
export type Subject = { appId: string } | { databaseId: string }

/**
 * Runs `act` for one of many, so that its failure, or a row of it that someone has locked, does not stop the others: logs it and resolves to
 * false. Rejects when Postgres or the engine is down.
 */
export async function apart(log: Logger, subject: Subject, act: () => Promise<void>): Promise<boolean> {
  try {
    await act()
    return true
  } catch (error) {
    if (isAway(error)) throw error
    log.warn({ err: error, ...subject }, 'watch: will check it again')
    return false
  }
}

export interface EachOptions {
  log: Logger
  subjectOf(id: string): Subject
  /** What they are, for the message: `applications`. */
  words: string
  /** Those that failed in the previous round: another failure of theirs says nothing about the engine. */
  failing?: Set<string> | undefined
}

/**
 * Settles rows one after the other; resolves to the ids of those that were not yet in their desired state, or that failed. One that the
 * engine can neither inspect nor end delays no others; rejects when several fail in a row that did not fail before.
 */
export async function settleEach<Row extends { id: string }>(
  { log, subjectOf, words, failing }: EachOptions,
  rows: readonly Row[],
  settle: (row: Row) => Promise<boolean>,
): Promise<Set<string>> {
  const unsettled = new Set<string>()
  let failures = 0
  for (const row of rows) {
    const again = failing?.has(row.id) ?? false
    const done = await apart(log, subjectOf(row.id), async () => {
      if (!(await settle(row))) unsettled.add(row.id)
    })
    if (done) failing?.delete(row.id)
    else {
      unsettled.add(row.id)
      failing?.add(row.id)
    }
    failures = done ? 0 : failures + (again ? 0 : 1)
    if (failures === failuresInARow) throw new Error(`The engine fails for several ${words} in a row.`)
  }
  return unsettled
}
