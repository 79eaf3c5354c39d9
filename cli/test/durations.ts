import { existsSync, readFileSync } from 'node:fs'

/** Number of slowest files that a run lists. */
const listedFiles = 10

/** The slowest files as lines for people. `path` holds the recorded times of a run, a line `<seconds> <file>` each. */
export function slowestFiles(path: string): string[] {
  const lines = existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').filter(Boolean) : []
  const times = lines.map(line => ({ seconds: Number.parseFloat(line), file: line.slice(line.indexOf(' ') + 1) }))
  const slowest = times.sort((one, other) => other.seconds - one.seconds).slice(0, listedFiles)
  return slowest.map(({ seconds, file }) => `${seconds.toFixed(0).padStart(5)} s  ${file}`)
}
