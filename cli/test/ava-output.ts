export interface TestCount {
  passed: number
  failed: number
}

export interface OutputReader {
  /** Reads one line, without its line end. */
  line(text: string): void
  count(): TestCount
  /** The counts of each file that the run reached; counts without a known file have the empty name. */
  byFile(): ReadonlyMap<string, TestCount>
}

const separator = ' › '

/**
 * Counts the lines of ava's default reporter as they arrive, so that an aborted run is counted up to that point. The machine-readable
 * reporter (TAP) aborts the run when a failure holds a value that it cannot serialize. `files` are the paths of a run of several files,
 * relative to the checkout; in such a run ava prints the path before each title.
 */
export function outputReader(files: string[] = []): OutputReader {
  const folder = commonFolder(files)
  const fileOfLabel = new Map(files.map(path => [labelOf(path, folder), path]))
  const fileNames = new Set(files)
  const counts = new Map<string, TestCount>()
  const add = (file: string, key: keyof TestCount) => {
    const count = counts.get(file) ?? { passed: 0, failed: 0 }
    count[key]++
    counts.set(file, count)
  }
  const fileIn = (text: string) => {
    const path = /\btest\/\S+?\.test\.ts\b/.exec(text)?.[0] ?? ''
    return fileNames.has(path) ? path : (fileOfLabel.get(longestLabel(text, fileOfLabel)) ?? '')
  }
  return {
    line(text) {
      if (/^\s+✘ Timed out while running tests$/.test(text)) return // the unfinished files follow
      const passed = /^\s+✔ (.*)/.exec(text)
      // A failed test or hook, a file that exited early, or an error outside of any test.
      const failed =
        /^\s+✘ (?:\[fail\]: )?(.*)/.exec(text) ?? /^\s+((?:Uncaught exception|Unhandled rejection) in .*)/.exec(text)
      // Ava aborts the whole run when nothing happens within its timeout, and names the unfinished files.
      const pending = /^\s+(?:\d+ tests were pending in|Failed to exit when running) (\S+)/.exec(text)
      if (passed?.[1] !== undefined) add(fileIn(passed[1]), 'passed')
      else if (failed?.[1] !== undefined) add(fileIn(failed[1]), 'failed')
      else if (pending?.[1] !== undefined && fileNames.has(pending[1])) add(pending[1], 'failed')
    },
    count: () => sumOf(counts.values()),
    byFile: () => counts,
  }
}

export function sumOf(counts: Iterable<TestCount>): TestCount {
  const sum = { passed: 0, failed: 0 }
  for (const { passed, failed } of counts) {
    sum.passed += passed
    sum.failed += failed
  }
  return sum
}

/** The folder that holds all the files, with its last slash. Ava leaves it out before their titles. */
function commonFolder([first = '', ...others]: string[]): string {
  let folder = first.slice(0, first.lastIndexOf('/') + 1)
  while (others.some(path => !path.startsWith(folder)))
    folder = folder.slice(0, folder.lastIndexOf('/', folder.length - 2) + 1)
  return folder
}

/**
 * The prefix that ava prints before the titles of a file: `test/db/apps.test.ts` is `db › apps` in a run of files in `test/`. It leaves
 * out `test-` in the name of a file too (its lib/reporters/prefix-title.js).
 */
function labelOf(path: string, folder: string): string {
  const folders = path.slice(folder.length).split('/')
  const name = folders.pop()!.replace(/\.test\.ts$/, '')
  return [...folders, name.replace('test-', '')].join(separator)
}

function longestLabel(text: string, labels: ReadonlyMap<string, string>): string {
  const parts = text.split(separator)
  for (let length = parts.length - 1; length > 0; length--) {
    const label = parts.slice(0, length).join(separator)
    if (labels.has(label)) return label
  }
  return ''
}
