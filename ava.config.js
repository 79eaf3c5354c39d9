/** Folders of the longest files, which begin first, so that none of them is left alone at the end of a run. */
const first = ['e2e', 'platform', 'crash', 'workflows', 'browser']
const rank = path => {
  const place = first.findIndex(folder => path.includes(`/test/${folder}/`))
  return place === -1 ? first.length : place
}

// Every test file is its own process; TypeScript is loaded directly, without a build.
export default {
  files: ['test/**/*.test.ts', '!test/long/**'],
  extensions: { ts: 'module' },
  workerThreads: false,
  nodeArguments: ['--import=tsx'],
  require: ['./test/kit/completion.ts'],
  timeout: '3m',
  concurrency: 2,
  sortTestFiles: (one, other) => rank(one) - rank(other) || one.localeCompare(other),
}
