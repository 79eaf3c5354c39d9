/** Folders of the longest files, which begin first, so that none of them is left alone at the end of a run. */
const first = ['e2e', 'platform', 'crash', 'workflows', 'browser']
const rank = path => {
  const place = first.findIndex(folder => path.includes(`/test/${folder}/`))
  return place === -1 ? first.length : place
}

/** `./berth test` has transpiled the sources; a file that is run alone by `npx ava` transpiles what it imports. */
const loader = process.env.TEST_TRANSPILED ? new URL('test/kit/transpiled/register.mjs', import.meta.url).href : 'tsx'

// Every test file is its own process. Many wait for programs, timers and disks, so three of them keep two cores busy.
export default {
  files: ['test/**/*.test.ts', '!test/long/**'],
  extensions: { ts: 'module' },
  workerThreads: false,
  nodeArguments: [`--import=${loader}`],
  require: ['./test/kit/completion.ts'],
  timeout: '3m',
  concurrency: 3,
  sortTestFiles: (one, other) => rank(one) - rank(other) || one.localeCompare(other),
}
