import test from 'ava'
import { merged, namesFrom, variablesFrom } from '../../../policy/apps/variables.ts'
import { CodedError } from '../../../policy/errors.ts'

const codeOf = (work: () => unknown): string => {
  try {
    work()
    return 'passes'
  } catch (error) {
    return error instanceof CodedError ? error.code : String(error)
  }
}
const many = (count: number, value = 'x') =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`V${n}`, value]))
const parsed = (json: string) => JSON.parse(json) as unknown

const sets: Record<string, [given: unknown, code: string]> = {
  'nothing given': [undefined, 'INVALID_ENV_CONTENT'],
  'a null': [null, 'INVALID_ENV_CONTENT'],
  'a list': [[], 'INVALID_ENV_CONTENT'],
  'a text': ['A=1', 'INVALID_ENV_CONTENT'],
  'no variables': [{}, 'passes'],
  'an empty value': [{ A: '' }, 'passes'],
  'a value of lines': [{ A: '-----BEGIN\nx\r\n\t=' }, 'passes'],
  'a number': [{ A: 1 }, 'INVALID_ENV_CONTENT'],
  'a null as value': [{ A: null }, 'INVALID_ENV_CONTENT'],
  'an object as value': [{ A: { B: 'x' } }, 'INVALID_ENV_CONTENT'],
  'NUL in a value': [{ A: 'a\0b' }, 'INVALID_ENV_CONTENT'],
  'half a character': [{ A: '\ud800' }, 'INVALID_ENV_CONTENT'],
  'an empty name': [{ '': 'x' }, 'INVALID_ENV_CONTENT'],
  'a name that begins with a digit': [{ '1A': 'x' }, 'INVALID_ENV_CONTENT'],
  'a name with =': [{ 'A=B': 'x' }, 'INVALID_ENV_CONTENT'],
  'a name with a line end': [{ 'A\n': 'x' }, 'INVALID_ENV_CONTENT'],
  'a name beyond ASCII': [{ Ä: 'x' }, 'INVALID_ENV_CONTENT'],
  'names of every object': [parsed('{"__proto__":"a","constructor":"b","toString":"c"}'), 'passes'],
  'the longest name': [{ ['A'.repeat(1024)]: 'x' }, 'passes'],
  'a longer name': [{ ['A'.repeat(1025)]: 'x' }, 'ENV_NAME_TOO_LONG'],
  'the longest value': [{ A: 'x'.repeat(4096) }, 'passes'],
  'the longest value of people': [{ A: '😀'.repeat(4096) }, 'passes'],
  'a longer value': [{ A: 'x'.repeat(4097) }, 'ENV_CONTENT_TOO_LONG'],
  'a longer value of people': [{ A: '😀'.repeat(4097) }, 'ENV_CONTENT_TOO_LONG'],
  'the most variables': [many(256), 'passes'],
  'the most of the longest': [
    Object.fromEntries(Object.keys(many(256)).map(name => [name.padEnd(1024, '_'), 'x'.repeat(4096)])),
    'passes',
  ],
  'one more': [many(257), 'TOO_MANY_ENV_VARS'],
  'more than a program can be started with': [many(256, '😀'.repeat(2000)), 'ENV_CONTENT_TOO_LONG'],
}

for (const [name, [given, code]] of Object.entries(sets))
  test(`given as variables: ${name}`, t => {
    t.is(
      codeOf(() => variablesFrom(given)),
      code,
    )
  })

test('given as names: a list of legal ones, each of them once', t => {
  t.deepEqual([...namesFrom(['A', '__proto__', 'A'])], ['A', '__proto__'])
  t.deepEqual([...namesFrom([])], [])
  for (const given of [undefined, {}, 'A', [1], [null], ['1A'], ['']])
    t.is(
      codeOf(() => namesFrom(given)),
      'INVALID_ENV_CONTENT',
    )
  t.is(
    codeOf(() => namesFrom(['A'.repeat(1025)])),
    'ENV_NAME_TOO_LONG',
  )
})

test('a merge keeps the other variables, and a refusal never shows a value', t => {
  const before = new Map([
    ['A', '1'],
    ['B', '2'],
  ])
  t.deepEqual(
    [
      ...merged(
        before,
        new Map([
          ['B', '3'],
          ['C', '4'],
        ]),
      ),
    ],
    [
      ['A', '1'],
      ['B', '3'],
      ['C', '4'],
    ],
  )
  t.is(before.get('B'), '2')
  for (const value of [`secret${'x'.repeat(9000)}`, 'secret\0']) {
    const error = t.throws(() => variablesFrom({ A: value }), { instanceOf: CodedError })
    t.notRegex(error?.message ?? 'secret', /secret/)
  }
})
