import { execFile } from 'node:child_process'
import { readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { crc32 } from 'node:zlib'
import { encode } from '@jridgewell/sourcemap-codec'
import test, { type ExecutionContext } from 'ava'
import { ownFolder } from '../kit/folders.ts'

const run = promisify(execFile)
const module = new URL('../../lib/recorded-program.ts', import.meta.url).href

/** A bundle whose program writes a word, and a process of its own that records or runs it, started with some flags. */
function program(t: ExecutionContext) {
  const path = join(ownFolder(t), 'program.cjs')
  const write = (main: string, module = '') => {
    const exported = `exports.ahead = async () => {}\nexports.main = async () => {\n${main}\n}`
    writeFileSync(path, `(function (exports, require) {\n${module}\n${exported}\n})`)
  }
  const call = async (name: 'recordProgram' | 'runProgram', flags: string[] = [], bundle = path) => {
    const script = `import { ${name} } from '${module}'; await ${name}(new URL('${pathToFileURL(bundle)}'))`
    const { stdout } = await run(process.execPath, [...flags, '--import=tsx', '--input-type=module', '--eval', script])
    return stdout
  }
  const says = (word: string) => write('console.log(word)', `const word = '${word}'`)
  return { path, write, call, says }
}

/** Makes a record look as if it were of the bundle as it is now, so that a text of the same length shows whether it is used. */
function resign(path: string, flags = ''): void {
  const record = recordOf(path, flags)
  const data = readFileSync(record).subarray(4)
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32LE(crc32(data, crc32(readFileSync(path))))
  writeFileSync(record, Buffer.concat([checksum, data]))
}

const recordOf = (path: string, flags = '') => `${path}.${process.version}-${process.arch}${flags}.compiled`

test('a program runs as V8 has compiled it before', async t => {
  const { path, says, call } = program(t)
  says('one')
  t.is(await call('recordProgram'), '', 'the program does not run while it is recorded')
  // V8 compares lengths, and takes the function from the record.
  says('two')
  resign(path)
  t.is(await call('runProgram'), 'one\n')
})

test('a record of another text, or a damaged one, is not used', async t => {
  const { path, says, call } = program(t)
  says('one')
  await call('recordProgram')
  says('two')
  t.is(await call('runProgram'), 'two\n', 'a text of the same length')
  says('one')
  const record = readFileSync(recordOf(path))
  for (const at of [2, 40, record.length - 1]) {
    const damaged = Buffer.from(record)
    damaged[at]! ^= 1
    writeFileSync(recordOf(path), damaged)
    t.is(await call('runProgram'), 'one\n', `another byte at ${at}`)
  }
  truncateSync(recordOf(path), 100)
  t.is(await call('runProgram'), 'one\n', 'a part of it')
  rmSync(recordOf(path))
  t.is(await call('runProgram'), 'one\n', 'none')
})

test('a record is of the flags of memory with which it was made', async t => {
  const { path, says, call } = program(t)
  const flags = ['--max-semi-space-size=32']
  says('one')
  await call('recordProgram', flags)
  says('two')
  resign(path, flags.join(''))
  t.is(await call('runProgram'), 'two\n')
  t.is(await call('runProgram', flags), 'one\n')
})

test('a program that runs from its record loads a module by its address', async t => {
  const { path, write, call } = program(t)
  writeFileSync(join(path, '../word.mjs'), "export const word = 'there'")
  const load = `const load = () => require('${pathToFileURL(join(path, '../word.mjs'))}')`
  write('console.log(load().word)', load)
  await call('recordProgram')
  t.is(await call('runProgram'), 'there\n')
})

test('a stack names the lines of the sources', async t => {
  const { path, write, call } = program(t)
  write("console.log(new Error('seen').stack)")
  const line = readFileSync(path, 'utf8')
    .split('\n')
    .findIndex(text => text.includes('seen'))
  const mappings = encode([...Array.from({ length: line }, () => []), [[0, 0, 41, 6]]])
  writeFileSync(`${path}.map`, JSON.stringify({ version: 3, sources: ['../sources/seen.ts'], names: [], mappings }))
  const [message, place] = (await call('runProgram')).split('\n')
  t.is(message, 'Error: seen')
  t.regex(place ?? '', /\/sources\/seen\.ts:42:7\)?$/)
  rmSync(`${path}.map`)
  t.regex(await call('runProgram'), /^Error: seen\n +at .*program\.cjs:\d+/, 'without its map')
})

test('a stack names the lines of the sources also where the bundle was recorded in another folder', async t => {
  const { path, write, call } = program(t)
  write("console.log(new Error('seen').stack)")
  const mappings = encode([...Array.from({ length: 3 }, () => []), [[0, 0, 41, 6]]])
  writeFileSync(`${path}.map`, JSON.stringify({ version: 3, sources: ['../sources/seen.ts'], names: [], mappings }))
  await call('recordProgram')
  const renamed = join(path, '../../renamed')
  renameSync(join(path, '..'), renamed)
  t.teardown(() => rmSync(renamed, { recursive: true }))
  const stack = await call('runProgram', [], join(renamed, 'program.cjs'))
  t.regex(stack, /^Error: seen\n +at .*\/sources\/seen\.ts:42:7\)?\n/)
})
