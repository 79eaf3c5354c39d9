import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** Number of slowest files that a run lists. */
const listedFiles = 10

/** What a test file took: seconds by the clock, and those of processors in its process and in the children of that. */
export interface FileTimes {
  file: string
  seconds: number
  processorSeconds: number
}

/** The recorded times of a run: `path` has a line `<seconds> <processor seconds> <file>` for each; nothing if it is missing. */
export function fileTimes(path: string): FileTimes[] {
  const lines = existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').filter(Boolean) : []
  return lines.map(line => {
    const [seconds, processorSeconds, file] = line.split(' ')
    return { seconds: Number(seconds), processorSeconds: Number(processorSeconds), file: file! }
  })
}

/** The slowest files, and the sum of all, as lines for people. */
export function slowestFiles(times: readonly FileTimes[]): string[] {
  const slowest = [...times].sort((one, other) => other.seconds - one.seconds).slice(0, listedFiles)
  const sum = (of: (times: FileTimes) => number) => times.reduce((sum, next) => sum + of(next), 0)
  const all = {
    seconds: sum(one => one.seconds),
    processorSeconds: sum(one => one.processorSeconds),
    file: 'all files',
  }
  return [...slowest, all].map(
    ({ seconds, processorSeconds, file }) =>
      `${seconds.toFixed(0).padStart(6)} s, ${processorSeconds.toFixed(0).padStart(5)} s of a processor  ${file}`,
  )
}

/** Keeps the times of a run for the order of the next one: `path` is a file of such lines, in which files that did not run keep theirs. */
export function keepTimes(path: string, times: readonly FileTimes[]): void {
  const kept = new Map([...fileTimes(path), ...times].map(one => [one.file, one]))
  const lines = [...kept.values()].map(one => `${one.seconds} ${one.processorSeconds} ${one.file}\n`)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, lines.join(''))
}
