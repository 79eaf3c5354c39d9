import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { demandRoot } from '../../kit/root.ts'

/** Runs a bundle, and records nothing of it. */
const runner = `export const runProgram = bundle => import(bundle)
export const recordProgram = async () => {}
`

/** A compiler that records its start and ends once the file `go` exists. */
const compiler = `const fs = require('node:fs')
fs.appendFileSync('started.txt', process.pid + '\\n')
const out = process.argv[process.argv.indexOf('--outDir') + 1]
fs.mkdirSync(out, { recursive: true })
fs.mkdirSync(out + '/cli')
fs.writeFileSync(out + '/cli/main.js', 'process.stderr.write(process.argv.slice(2).join(" "))')
fs.mkdirSync(out + '/lib')
fs.writeFileSync(out + '/lib/recorded-program.js', ${JSON.stringify(runner)})
setInterval(() => fs.existsSync('go') && process.exit(0), 20)
`

/** A bundler whose bundles are what it is given. */
const bundler = `const { readFileSync } = require('node:fs')
exports.build = async ({ entryPoints, outdir }) => ({
  outputFiles: Object.entries(entryPoints).map(([name, path]) => ({
    path: outdir + '/' + name + '.cjs',
    text: readFileSync(path, 'utf8'),
  })),
})
`
const codec = 'node_modules/@jridgewell/sourcemap-codec'

/** A checkout with its packages, whose sources are not compiled. */
function checkout(t: ExecutionContext): string {
  const folder = ownFolder(t)
  const files = { 'package-lock.json': '{"packages":{}}', 'tsconfig.json': '{}', 'tsconfig.build.json': '{}' }
  for (const name of ['scripts', 'node_modules/typescript/bin', 'node_modules/esbuild', codec])
    mkdirSync(join(folder, name), { recursive: true })
  for (const name of ['berth.mjs', 'ready.mjs', 'prepare.mjs', 'build.mjs', 'bundle.mjs'])
    cpSync(`scripts/${name}`, join(folder, 'scripts', name))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  writeFileSync(join(folder, 'node_modules/.package-lock.json'), '{"packages":{}}')
  writeFileSync(join(folder, 'node_modules/typescript/bin/tsc'), compiler)
  writeFileSync(join(folder, 'node_modules/esbuild/index.js'), bundler)
  writeFileSync(join(folder, codec, 'index.js'), 'exports.decode = exports.encode = () => []')
  return folder
}

interface Running {
  child: ChildProcess
  output(): string
  ended: Promise<unknown[]>
}

const prepare = (t: ExecutionContext, folder: string, options: { uid?: number } = {}) =>
  run(t, folder, 'prepare', options)

/** A script of the checkout with the words `up --detach`. */
function run(t: ExecutionContext, folder: string, script: string, options: { uid?: number } = {}): Running {
  const child = spawn(process.execPath, [join(folder, `scripts/${script}.mjs`), 'up', '--detach'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
    ...options,
  })
  let text = ''
  child.stderr!.on('data', piece => {
    text += piece
  })
  t.teardown(() => child.kill('SIGKILL'))
  return { child, output: () => text, ended: once(child, 'close') }
}

const compilers = (folder: string): number[] =>
  existsSync(join(folder, 'started.txt'))
    ? readFileSync(join(folder, 'started.txt'), 'utf8').trim().split('\n').map(Number)
    : []
const leftovers = (folder: string) => readdirSync(folder).filter(name => /^\.dist-|^dist-old/.test(name))

test('of two concurrent starts the second reports what the first does, waits, and repeats nothing', async t => {
  const folder = checkout(t)
  const first = prepare(t, folder)
  await comesTrue(() => compilers(folder).length === 1)
  const second = prepare(t, folder)
  const waiting = `Another ./berth is preparing this checkout (process ${first.child.pid}, compiling); waiting for it ...`
  await comesTrue(() => second.output().includes(waiting))
  writeFileSync(join(folder, 'go'), '')
  t.deepEqual([(await first.ended)[0], (await second.ended)[0]], [0, 0], first.output() + second.output())
  t.is(compilers(folder).length, 1)
  t.deepEqual(leftovers(folder), [])
  t.is((await prepare(t, folder).ended)[0], 0)
  t.is(compilers(folder).length, 1, 'it is ready')
})

test('when the first start is killed, exactly one of the waiting ones takes over', async t => {
  const folder = checkout(t)
  const first = prepare(t, folder)
  await comesTrue(() => compilers(folder).length === 1)
  const others = [prepare(t, folder), prepare(t, folder), prepare(t, folder)]
  await comesTrue(() => others.every(({ output }) => output().includes('waiting for it')))
  first.child.kill('SIGKILL')
  await comesTrue(() => compilers(folder).length === 2)
  writeFileSync(join(folder, 'go'), '')
  for (const { ended, output } of others) t.is((await ended)[0], 0, output())
  t.is(compilers(folder).length, 2)
  await first.ended
  t.deepEqual(
    leftovers(folder).filter(name => name !== `.dist-${first.child.pid}`),
    [],
  )
})

for (const [name, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  test(`${name} ends it with ${code}, ends its compiler too, and leaves nothing half built`, async t => {
    const folder = checkout(t)
    const { child, ended, output } = prepare(t, folder)
    await comesTrue(() => compilers(folder).length === 1 && leftovers(folder).length === 1)
    child.kill(name)
    t.deepEqual((await ended)[0], code, output())
    await comesTrue(() => !existsSync(`/proc/${compilers(folder)[0]}`))
    t.deepEqual(leftovers(folder), [])
    t.false(existsSync(join(folder, 'dist')))
    writeFileSync(join(folder, 'go'), '')
    t.is((await prepare(t, folder).ended)[0], 0)
  })

test('a command prepares first and runs in the process that was started; files that only look new compile nothing', async t => {
  const folder = checkout(t)
  const source = join(folder, 'lib/one.ts')
  mkdirSync(join(folder, 'lib'))
  const write = (text: string) => {
    writeFileSync(source, text)
    utimesSync(source, 1000, 1000)
  }
  write('one')
  writeFileSync(join(folder, 'go'), '')
  const command = async () => {
    const { ended, output } = run(t, folder, 'berth')
    const [code] = await ended
    return [code, output().split('\n').at(-1), compilers(folder).length]
  }
  t.deepEqual(await command(), [0, 'up --detach', 1])
  t.deepEqual(await command(), [0, 'up --detach', 1])
  write('one')
  t.deepEqual(await command(), [0, 'up --detach', 1], 'written again, the same')
  write('two')
  t.deepEqual(await command(), [0, 'up --detach', 2], 'as long as before, and with the same time')
  rmSync(source)
  t.deepEqual(await command(), [0, 'up --detach', 3])
})

test('a signal ends a command that still prepares, with the exit code of the preparation', async t => {
  const folder = checkout(t)
  const { child, ended, output } = run(t, folder, 'berth')
  await comesTrue(() => compilers(folder).length === 1)
  child.kill('SIGTERM')
  t.deepEqual((await ended)[0], 143, output())
  await comesTrue(() => !existsSync(`/proc/${compilers(folder)[0]}`))
  t.deepEqual(leftovers(folder), [])
})

test('an unprepared checkout of another user is reported, with the user who can prepare it', async t => {
  demandRoot()
  const folder = checkout(t)
  chownSync(folder, 1, 1)
  const { ended, output } = prepare(t, folder, { uid: 65534 })
  t.is((await ended)[0], 1)
  t.regex(
    output(),
    /^The checkout \S+ belongs to the user daemon, and is not prepared yet: run \.\/berth once as that user/,
  )
  t.is(output().trim().split('\n').length, 1)
})
