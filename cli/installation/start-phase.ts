import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** What a start is doing, for a second start that finds it in progress. */
export interface StartPhase {
  is(line: string): void
  over(): void
}

const fileOf = (runFolder: string): string => join(runFolder, 'start-phase')

/** The phase of the start that holds the supervisor's lock. */
export function startPhase(runFolder: string): StartPhase {
  const path = fileOf(runFolder)
  return {
    is: line => writeFileSync(path, line.trim(), { mode: 0o600 }),
    over: () => rmSync(path, { force: true }),
  }
}

/** The last report of a start in progress; null once everything is up. */
export function phaseOf(runFolder: string): string | null {
  try {
    return readFileSync(fileOf(runFolder), 'utf8')
  } catch {
    return null
  }
}
