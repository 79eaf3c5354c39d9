import { existsSync, readFileSync } from 'node:fs'

/** How many files a run names as its slowest. */
const shown = 10

/** Lines for a person: the slowest of the files whose times a run has noted, a line `<seconds> <file>` each, in `path`. */
export function slowestFiles(path: string): string[] {
  const noted = existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').filter(Boolean) : []
  const times = noted.map(line => ({ seconds: Number.parseFloat(line), file: line.slice(line.indexOf(' ') + 1) }))
  const slowest = times.sort((one, other) => other.seconds - one.seconds).slice(0, shown)
  return slowest.map(({ seconds, file }) => `${seconds.toFixed(0).padStart(5)} s  ${file}`)
}
