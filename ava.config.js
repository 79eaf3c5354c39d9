// Every test file is its own process; TypeScript is loaded directly, without a build.
export default {
  files: ['test/**/*.test.ts', '!test/long/**'],
  extensions: { ts: 'module' },
  workerThreads: false,
  nodeArguments: ['--import=tsx'],
  require: ['./test/kit/completion.ts'],
  timeout: '3m',
  concurrency: 2,
}
