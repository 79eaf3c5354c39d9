import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Command } from 'commander'
import { type ChildProcess, startProcess } from '../lib/child-process.ts'
import { checkout } from './installation/installation.ts'
import { sayOnStderr } from './terminal/terminal.ts'
import { outputReader, sumOf, type TestCount } from './test/ava-output.ts'
import { needsDatabaseDrivers } from './test/clients/database-drivers.ts'
import { needsOpenAiClient } from './test/clients/openai.ts'
import { needsS3Programs } from './test/clients/s3-programs.ts'
import { compiledProduct } from './test/compiled-product.ts'
import { needsDatabaseImages } from './test/database-images.ts'
import { fileTimes, keepTimes, slowestFiles } from './test/durations.ts'
import { needsPebble } from './test/pebble.ts'
import { countedFiles, filesOfSecondLook, reachingAll, unstableFiles } from './test/second-look.ts'
import { startTestServices, type TestServices } from './test/test-services.ts'

/** The parts of `npm run check`, so that each is counted. */
const checks = [
  { name: 'format and lint', program: 'biome', args: ['ci', '.'] },
  { name: 'nothing unused', program: 'knip', args: ['--no-progress'] },
  { name: 'types', program: 'tsc', args: ['--noEmit', '-p', 'tsconfig.json'] },
]

export function testCommand(program: Command): void {
  program
    .command('test')
    .argument('[files...]', 'test files; default: all')
    .option('--long', 'run the long soak and chaos tests instead')
    .option('--allow-unstable', 'count a file that fails in the whole run and passes alone as passed, and name it')
    .action(async (files: string[], { long, allowUnstable = false }: { long?: boolean; allowUnstable?: boolean }) => {
      const total: TestCount = { passed: 0, failed: 0 }
      if (!long && files.length === 0) for (const check of checks) add(total, await runCheck(check))
      const services = await startTestServices(sayOnStderr, {
        s3Programs: !long && needsS3Programs(files),
        databaseImages: needsDatabaseImages(files),
        databaseDrivers: !long && needsDatabaseDrivers(files),
        openAiClient: !long && needsOpenAiClient(files),
        pebble: !long && needsPebble(files),
      })
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt)
      try {
        if (long) add(total, sumOf((await runTests(services, ['--config', 'ava-long.config.js', ...files])).values()))
        else if (files.length > 0) add(total, sumOf((await runTests(services, files)).values()))
        else add(total, await runWhole(services, allowUnstable))
      } finally {
        await services.stop()
      }
      console.log(`\n${total.passed} passed, ${total.failed} failed${interrupted ? '; interrupted' : ''}`)
      if (interrupted) process.exit(130)
      process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0
    })
}

function add(total: TestCount, more: TestCount): void {
  total.passed += more.passed
  total.failed += more.failed
}

async function runCheck({ name, program, args }: (typeof checks)[number]): Promise<TestCount> {
  const code = await new Promise<number>((resolve, reject) => {
    const child = startProcess(bin(program), args, { cwd: checkout, env: process.env, stdio: ['ignore', 2, 2] })
    child.once('error', reject)
    child.once('exit', status => resolve(status ?? 1))
  })
  console.log(`${code === 0 ? '✔' : '✘'} ${name}`)
  return code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 }
}

/**
 * Runs the whole suite, then each file again, alone, that failed or was never reached: many tests wait for real programs, and the suite
 * keeps both cores of a small machine busy, so a second run shows where to look.
 */
async function runWhole(services: TestServices, allowUnstable: boolean): Promise<TestCount> {
  const files = testFiles()
  const first = await reachingAll(files, left => {
    if (left === files) return runTests(services, [], files)
    if (!interrupted) console.log(`\nThe run ended before ${left.length} files; it continues with them`)
    return runTests(services, left, left)
  })
  if (interrupted) return sumOf(first.values())
  const times = fileTimes(services.durations)
  keepTimes(services.env.TEST_EARLIER_TIMES!, times)
  const second = new Map<string, TestCount>()
  const again = filesOfSecondLook(files, first)
  if (again.length > 0) console.log(`\nFailed, or never reached:\n${again.join('\n')}`)
  for (const file of again) {
    if (interrupted) break
    console.log(`\nAgain, alone: ${file}`)
    second.set(file, sumOf((await runTests(services, [file])).values()))
  }
  for (const file of unstableFiles(first, second))
    console.log(`\nUnstable: ${file} failed in the whole run and passed alone`)
  console.log(`\nSlowest files:\n${slowestFiles(times).join('\n')}`)
  return sumOf(countedFiles(first, second, allowUnstable).values())
}

/** The files that ava.config.js runs, relative to the checkout. */
function testFiles(): string[] {
  return readdirSync(join(checkout, 'test'), { recursive: true, encoding: 'utf8' })
    .filter(path => path.endsWith('.test.ts') && !path.startsWith('long/'))
    .map(path => `test/${path}`)
    .sort()
}

/** The run of ava that has not ended; it leads a process group with every test process and its children. */
let running: ChildProcess | undefined

/** Whether a signal has ended the run. No file is begun after it: their services stop. */
let interrupted = false

/** Ends the test processes, which would otherwise continue while their services stop. */
function interrupt(): void {
  if (!interrupted && running?.pid !== undefined) process.kill(-running.pid, 'SIGKILL')
  interrupted = true
}

/** Runs ava in its own process group, so that an interrupted run ends all its processes; `files` are those of a whole run. */
async function runTests(
  { env }: TestServices,
  args: string[],
  files: string[] = [],
): Promise<ReadonlyMap<string, TestCount>> {
  const reader = outputReader(files)
  const product = await compiledProduct()
  if (interrupted) return reader.byFile()
  const child = startProcess(bin('ava'), args, {
    cwd: checkout,
    env: { ...process.env, ...env, ...product, FORCE_COLOR: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  running = child
  const ended = once(child, 'exit').finally(() => {
    running = undefined
  })
  for await (const text of createInterface({ input: child.stdout! })) {
    reader.line(text)
    console.log(text)
  }
  const [code] = (await ended) as [number | null]
  const counts = reader.byFile()
  // A run that fails without a failed test (a file that crashed) must not look like a success.
  const isIncomplete = files.some(file => !counts.has(file))
  const unexplained = code !== 0 && sumOf(counts.values()).failed === 0 && !isIncomplete
  return unexplained ? new Map([...counts, ['', { passed: counts.get('')?.passed ?? 0, failed: 1 }]]) : counts
}

function bin(name: string): string {
  const path = join(checkout, 'node_modules/.bin', name)
  if (!existsSync(path)) throw new Error(`${name} is not installed: npm ci`)
  return path
}
