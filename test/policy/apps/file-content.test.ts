import test from 'ava'
import { fileContent, maxFileBytes } from '../../../policy/apps/file-content.ts'

const text = (body: Record<string, unknown>) => Buffer.from(fileContent(body)).toString()
const bytes = [0, 1, 127, 128, 255]

test('a string, base64, an array and a Buffer become bytes; buffer is an alias of content', t => {
  t.is(text({ content: 'ünï \0' }), 'ünï \0')
  t.is(text({ buffer: 'text' }), 'text')
  t.is(text({ content: 'first', buffer: 'second' }), 'first')
  t.is(text({ content: 'aGVsbG8=', encoding: 'base64' }), 'hello')
  t.is(text({ content: 'aGVs\r\nbG8', encoding: 'base64' }), 'hello')
  t.is(text({ content: 'text', encoding: null }), 'text')
  t.deepEqual([...fileContent({ content: bytes })], bytes)
  t.deepEqual([...fileContent({ content: { type: 'Buffer', data: bytes } })], bytes)
  t.deepEqual([...fileContent(JSON.parse(JSON.stringify({ content: Buffer.from(bytes) })))], bytes)
})

test('empty content is an empty file, missing content is refused', t => {
  for (const content of ['', [], { type: 'Buffer', data: [] }]) t.is(fileContent({ content }).length, 0)
  t.is(fileContent({ content: '', encoding: 'base64' }).length, 0)
  for (const content of [[], { type: 'Buffer', data: [] }])
    t.is(fileContent({ content, encoding: 'base64' }).length, 0, JSON.stringify(content))
  for (const content of [undefined, null]) t.throws(() => fileContent({ content }), { code: 'INVALID_CONTENT' })
})

test('everything else is refused', t => {
  const contents = [1, true, {}, { type: 'Buffer' }, { type: 'Bytes', data: [1] }, { data: [1] }, '\ud800', [1, '2']]
  for (const content of [...contents, [256], [-1], [1.5], [null], [[1]], { type: 'Buffer', data: 'AA==' }])
    t.throws(() => fileContent({ content }), { code: 'INVALID_CONTENT' }, JSON.stringify(content))
  for (const content of ['a', 'ab=c', 'a b c', 'ab-_', '====', [1], { type: 'Buffer', data: [1] }])
    t.throws(() => fileContent({ content, encoding: 'base64' }), { code: 'INVALID_ENCODING' }, JSON.stringify(content))
  for (const encoding of ['utf8', 'BASE64', '', 1, {}])
    t.throws(() => fileContent({ content: 'aGk=', encoding }), { code: 'INVALID_ENCODING' }, JSON.stringify(encoding))
})

test('the limit is in bytes, for every encoding', t => {
  const full = 'x'.repeat(maxFileBytes)
  const shapes = (content: string) => [
    { content },
    { content: Buffer.from(content).toString('base64'), encoding: 'base64' },
    { content: Array.from<number>({ length: content.length }).fill(120) },
  ]
  for (const body of shapes(full)) t.is(fileContent(body).length, maxFileBytes)
  for (const body of [...shapes(`${full}x`), { content: 'é'.repeat(maxFileBytes / 2 + 1) }])
    t.throws(() => fileContent(body), { code: 'FILE_TOO_LARGE', message: /10 MB/ })
})
