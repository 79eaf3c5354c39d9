import { monitorEventLoopDelay } from 'node:perf_hooks'
import test from 'ava'
import type { BodyForm } from '../../../api/http/body.ts'
import { isDense, measureBody } from '../../../api/http/body-measure.ts'
import { parseInThread } from '../../../api/http/body-threads.ts'
import type { CodedError } from '../../../policy/errors.ts'
import { parsingThreads } from '../../kit/parsing-threads.ts'

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text))
let accounts = 0
const parsed = (bytes: Uint8Array<ArrayBuffer>, form: BodyForm = {}) =>
  parseInThread(bytes, form, `account-${++accounts}`)
const aside = (body: unknown, form: BodyForm = {}) => parsed(bytesOf(JSON.stringify(body)), form)

test('a body whose client has disconnected leaves the queue of its account and holds nothing', async t => {
  const aborted = AbortSignal.abort()
  const refused = await t.throwsAsync(parseInThread(new TextEncoder().encode('{}'), {}, 'eve', aborted))
  t.is((refused as CodedError).code, 'INVALID_JSON_BODY')
})

test('an object is parsed as in the main thread, including field names of the sender', async t => {
  const body = { text: 'x'.repeat(2_000_000), list: [1, null, { a: true }], '': 'empty' }
  t.deepEqual(await aside(body), body)
  const names = '{"envs":{"__proto__":"kept","a":"b"}}'
  t.deepEqual(await parsed(bytesOf(names), {}), { envs: { a: 'b' } })
  const kept = await parsed(bytesOf(names), { anyName: true })
  t.deepEqual(Object.entries(kept.envs as object), Object.entries(JSON.parse(names).envs))
})

test('a file is returned as bytes', async t => {
  const { path, content } = await aside({ path: 'a', content: [1, 2, 3] }, { file: true })
  t.deepEqual([path, content], ['a', new Uint8Array([1, 2, 3])])
  const large = await aside({ buffer: 'x'.repeat(5_000_000) }, { file: true })
  t.is((large.content as Uint8Array).length, 5_000_000)
})

test('refusals keep their codes', async t => {
  await t.throwsAsync(parsed(bytesOf('{"a":'), {}), { code: 'INVALID_JSON_BODY' })
  await t.throwsAsync(parsed(bytesOf('[1]'), {}), { code: 'INVALID_JSON_BODY' })
  await t.throwsAsync(aside({ content: 'a', encoding: 'base64' }, { file: true }), { code: 'INVALID_ENCODING' })
  await t.throwsAsync(aside({ a: Array.from({ length: 30_000 }, () => 0) }), {
    code: 'INVALID_JSON_BODY',
    message: /values/,
  })
})

test('a body that would take too much memory is not parsed', async t => {
  const bodies = {
    lists: `{"a":[${'[],'.repeat(20_000_000)}0]}`,
    texts: `{"content":[${'"a",'.repeat(15_000_000)}0]}`,
    fractions: `{"content":[${'0.1,'.repeat(15_000_000)}0]}`,
    fields: `{${Array.from({ length: 2_000_000 }, (_, n) => `"${n}": 1`).join(',')}}`,
  }
  for (const [name, text] of Object.entries(bodies))
    for (const file of [true, false])
      await t.throwsAsync(parsed(bytesOf(text), { file }), { code: 'INVALID_JSON_BODY', message: /values/ }, name)
  const numbers = bytesOf(`{"content":[${'1,'.repeat(30_000_000)}1]}`)
  await t.throwsAsync(parsed(numbers, { file: true }), { code: 'FILE_TOO_LARGE' })
})

test('a text is measured without its strings, and never underestimated', t => {
  const text = String.raw`{"a,[{":"\",[\\","b":[1, 22 ,333,4444,-5,6.5,7e1],"c":{}}`
  t.deepEqual(measureBody(Buffer.from(text)), { bytes: 3, values: 9 })
  t.deepEqual(measureBody(Buffer.from('{"a": 1, "b": 2}')), { bytes: 0, values: 3 })
  t.deepEqual(measureBody(Buffer.from('"never ends \\"')), { bytes: 0, values: 1 })
})

test('a file of 50 KB as a list of its bytes is not dense, one of 130 KB is', t => {
  const file = (size: number) => Buffer.from(JSON.stringify({ content: Buffer.alloc(size, 200) }))
  t.false(isDense(file(50_000)))
  t.true(isDense(file(130_000)))
})

test('the worst bodies of one account leave a thread for others', async t => {
  const list = Array.from({ length: 1_000_000 }, () => '120').join()
  const ended: string[] = []
  const parse = (account: string) =>
    parseInThread(bytesOf(`{"content":[${list}]}`), { file: true }, account).then(() => ended.push(account))
  const all = ['ana', 'ana', 'ana', 'ana', 'ana', 'ana', 'bob', 'eve'].map(parse)
  await Promise.all(all.slice(6))
  // In the order of asking the two would come last.
  t.true(ended.filter(account => account === 'ana').length < 5, ended.join(' '))
  await Promise.all(all)
})

test.serial('an account has one body parsed at a time, even if no other waits; several accounts have two', async t => {
  const body = () => bytesOf(`{"content":[${'120,'.repeat(100_000)}120]}`)
  const parse = (account: string) => parseInThread(body(), { file: true }, account)
  const own = parsingThreads(t)
  await Promise.all(['ana', 'ana', 'ana', 'ana'].map(parse))
  t.deepEqual(own(), { started: 4, most: 1 })
  const all = parsingThreads(t)
  await Promise.all(['ana', 'bob', 'carl', 'dora', 'eve', 'ana'].map(parse))
  t.deepEqual(all(), { started: 6, most: 2 })
})

test.serial('other work continues while a list of ten million numbers is parsed', async t => {
  const list = `${'120,'.repeat(10_000_000 - 1)}120`
  const body = bytesOf(`{"path":"a","content":[${list}]}`)
  const delay = monitorEventLoopDelay({ resolution: 10 })
  delay.enable()
  const startedAt = performance.now()
  const { content } = await parsed(body, { file: true })
  const tookMs = performance.now() - startedAt
  delay.disable()
  t.is((content as Uint8Array).length, 10_000_000)
  // Read by this thread, everybody would wait for as long as it takes.
  const maxMs = delay.max / 1e6
  t.true(maxMs < tookMs / 2, `${Math.round(maxMs)} ms of ${Math.round(tookMs)} ms`)
  t.log(`longest wait ${Math.round(maxMs)} ms of ${Math.round(tookMs)} ms`)
})
