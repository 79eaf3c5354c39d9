import { fileURLToPath } from 'node:url'

/** Folders of the longest files, which begin first, so that none of them is left alone at the end of a run. */
const first = ['e2e', 'platform', 'crash', 'workflows', 'browser']
const rank = path => {
  const place = first.findIndex(folder => path.includes(`/test/${folder}/`))
  return place === -1 ? first.length : place
}

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
  sortTestFiles: (one, other) => rank(one) - rank(other) || one.localeCompare(other),
}
