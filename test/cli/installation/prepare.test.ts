import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { demandRoot } from '../../kit/root.ts'

/** A compiler that notes its start and ends when it is let go. */
const compiler = `const fs = require('node:fs')
fs.appendFileSync('started.txt', process.pid + '\\n')
const out = process.argv[process.argv.indexOf('--outDir') + 1]
fs.mkdirSync(out, { recursive: true })
fs.writeFileSync(out + '/half', '')
setInterval(() => fs.existsSync('go') && process.exit(0), 20)
`

/** A checkout whose packages are there, and whose sources are not compiled. */
function checkout(t: ExecutionContext): string {
  const folder = ownFolder(t)
  const files = { 'package-lock.json': '{"packages":{}}', 'tsconfig.json': '{}', 'tsconfig.build.json': '{}' }
  for (const name of ['scripts', 'node_modules/typescript/bin']) mkdirSync(join(folder, name), { recursive: true })
  for (const name of ['prepare.mjs', 'build.mjs']) cpSync(`scripts/${name}`, join(folder, 'scripts', name))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  writeFileSync(join(folder, 'node_modules/.package-lock.json'), '{"packages":{}}')
  writeFileSync(join(folder, 'node_modules/typescript/bin/tsc'), compiler)
  return folder
}

interface Running {
  child: ChildProcess
  said(): string
  ended: Promise<unknown[]>
}

function prepare(t: ExecutionContext, folder: string, options: { uid?: number } = {}): Running {
  const child = spawn(process.execPath, [join(folder, 'scripts/prepare.mjs'), 'up'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
    ...options,
  })
  let text = ''
  child.stderr!.on('data', piece => {
    text += piece
  })
  t.teardown(() => child.kill('SIGKILL'))
  return { child, said: () => text, ended: once(child, 'close') }
}

const compilers = (folder: string): number[] =>
  existsSync(join(folder, 'started.txt'))
    ? readFileSync(join(folder, 'started.txt'), 'utf8').trim().split('\n').map(Number)
    : []
const leftovers = (folder: string) => readdirSync(folder).filter(name => /^\.dist-|^dist-old/.test(name))

test('of two that start at once the second says what the first does, waits, and does nothing again', async t => {
  const folder = checkout(t)
  const first = prepare(t, folder)
  await comesTrue(() => compilers(folder).length === 1)
  const second = prepare(t, folder)
  const told = `Another ./berth makes this checkout ready (process ${first.child.pid}, compiling); waiting for it ...`
  await comesTrue(() => second.said().includes(told))
  writeFileSync(join(folder, 'go'), '')
  t.deepEqual([(await first.ended)[0], (await second.ended)[0]], [0, 0], first.said() + second.said())
  t.is(compilers(folder).length, 1)
  t.deepEqual(leftovers(folder), [])
  t.is((await prepare(t, folder).ended)[0], 0)
  t.is(compilers(folder).length, 1, 'it is ready')
})

test('one that is killed leaves the way free to exactly one of those who wait', async t => {
  const folder = checkout(t)
  const first = prepare(t, folder)
  await comesTrue(() => compilers(folder).length === 1)
  const others = [prepare(t, folder), prepare(t, folder), prepare(t, folder)]
  await comesTrue(() => others.every(({ said }) => said().includes('waiting for it')))
  first.child.kill('SIGKILL')
  await comesTrue(() => compilers(folder).length === 2)
  writeFileSync(join(folder, 'go'), '')
  for (const { ended, said } of others) t.is((await ended)[0], 0, said())
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
  test(`${name} ends it with ${code}, its compiler with it, and leaves nothing half made`, async t => {
    const folder = checkout(t)
    const { child, ended, said } = prepare(t, folder)
    await comesTrue(() => compilers(folder).length === 1 && leftovers(folder).length === 1)
    child.kill(name)
    t.deepEqual((await ended)[0], code, said())
    await comesTrue(() => !existsSync(`/proc/${compilers(folder)[0]}`))
    t.deepEqual(leftovers(folder), [])
    t.false(existsSync(join(folder, 'dist')))
    writeFileSync(join(folder, 'go'), '')
    t.is((await prepare(t, folder).ended)[0], 0)
  })

test('a checkout of another user that is not ready is named, with who can make it so', async t => {
  demandRoot()
  const folder = checkout(t)
  chownSync(folder, 1, 1)
  const { ended, said } = prepare(t, folder, { uid: 65534 })
  t.is((await ended)[0], 1)
  t.regex(
    said(),
    /^The checkout \S+ belongs to the user daemon, and has to be made ready first: run \.\/berth once as that user/,
  )
  t.is(said().trim().split('\n').length, 1)
})
