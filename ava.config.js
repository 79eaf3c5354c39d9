import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Folders of the longest files. */
const first = ['e2e', 'platform', 'crash', 'workflows', 'browser']
const rank = path => {
  const place = first.findIndex(folder => path.includes(`/test/${folder}/`))
  return place === -1 ? first.length : place
}

/** Seconds of each file in earlier whole runs: lines `<seconds> <processor seconds> <file>` (cli/test/durations.ts). */
const { TEST_EARLIER_TIMES: times } = process.env
const earlier = new Map(
  (times && existsSync(times) ? readFileSync(times, 'utf8').trim().split('\n') : []).map(line => {
    const [seconds, , file] = line.split(' ')
    return [file, Number(seconds)]
  }),
)
/** How long a file is expected to take; one that has never run may be long in folders of long files. */
const expected = path =>
  earlier.get(relative(import.meta.dirname, path)) ?? (rank(path) < first.length ? Number.MAX_VALUE : 0)

/** `./berth test` has transpiled the sources, into functions; a file that is run alone by `npx ava` transpiles what it imports. */
const isTranspiled = Boolean(process.env.TEST_TRANSPILED)
const register = fileURLToPath(new URL('test/kit/transpiled/register.cjs', import.meta.url))

// Every test file is its own process. Many wait for programs, timers and disks, so three of them keep two cores busy.
export default {
  files: ['test/**/*.test.ts', '!test/long/**'],
  extensions: { ts: isTranspiled ? 'commonjs' : 'module' },
  workerThreads: false,
  nodeArguments: [isTranspiled ? `--require=${register}` : '--import=tsx'],
  require: [...(isTranspiled ? [register] : []), './test/kit/completion.ts'],
  timeout: '3m',
  concurrency: 3,
  // The longest ones first, so that none of them is left alone at the end of a run.
  sortTestFiles: (one, other) => expected(other) - expected(one) || rank(one) - rank(other) || one.localeCompare(other),
}
