import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import test from 'ava'
import {
  holds,
  isByHand,
  type Listed,
  lastRun,
  type Named,
  namedIn,
  numbersOf,
  numbersPromised,
  promisesIn,
} from './kit/promises.ts'

const text = readFileSync('PROMISES.md', 'utf8')
const promises = promisesIn(text)
const isOpen = ({ promise, heldBy }: Listed): boolean => /\*\*open\*\*/i.test(`${promise} ${heldBy}`)

test('every promise has a number and names a test or bench that exists, or says that it is open', t => {
  t.true(promises.length > 300)
  t.is(promises.length, [...text.matchAll(/^\*\*[A-Z]\d/gm)].length, 'one has no list below it')
  const ids = promises.map(({ id }) => id)
  t.deepEqual(
    ids.filter((id, at) => ids.indexOf(id) !== at),
    [],
  )
  for (const listed of promises) {
    const { id, promise, heldBy } = listed
    t.regex(promise, /\d/, `${id} has no number`)
    t.true(isOpen(listed) || namedIn(heldBy).length > 0, `${id} is neither held nor open`)
    for (const named of namedIn(heldBy)) t.true(holds(named), `${id}: ${named.file} "${named.title}"`)
  }
})

test('no line of a promise is longer than a reader likes', t => {
  t.deepEqual(
    text.split('\n').filter(line => line.length > 180),
    [],
  )
})

test('every failure of a database names tests that exist', t => {
  const failures = readFileSync('docs/decisions/database-failures.md', 'utf8').split('\n')
  const held = failures.filter(line => line.startsWith('| ')).map(row => namedIn(row.split(' | ').at(-1) ?? ''))
  t.true(held.filter(names => names.length > 0).length > 10)
  for (const named of held.flat()) t.true(holds(named), `${named.file} "${named.title}"`)
})

test('a test or bench that ./berth test does not run holds a promise only with the commit of its last run', t => {
  for (const { id, heldBy } of promises.filter(listed => !isOpen(listed)))
    if (namedIn(heldBy).some(isByHand)) t.truthy(lastRun(heldBy), `${id} is measured by hand`)
})

/** Of the table of numbers: each piece with the comment that says where it comes from. */
const agreed = [
  ...readFileSync('test/policy/constants/numbers.ts', 'utf8').matchAll(
    /^((?: {2}\/\/ .*\n)+)((?: {2}(?!\/\/)\S.*\n| {3,}.*\n)+)/gm,
  ),
].map(([, reason, table]) => ({ reason: reason as string, numbers: numbersOf(`${reason}${table}`) }))

/** The text of a test file and of what it takes from its kit. */
function sourceOf({ file }: Named): string {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  const kit = [...text.matchAll(/from '(\.[^']*)'/g)]
    .map(([, path]) => join(dirname(file), path as string))
    .filter(path => path.startsWith('test/') && existsSync(path))
  return [text, ...kit.map(path => readFileSync(path, 'utf8'))].join('\n')
}

test('every number of a promise stands in a test that holds it, or in the table of what was agreed', t => {
  for (const { id, promise, heldBy } of promises.filter(listed => !isOpen(listed))) {
    const known = namedIn(heldBy).map(named => numbersOf(sourceOf(named)))
    known.push(...agreed.filter(({ reason }) => new RegExp(`\\b${id}\\b`).test(reason)).map(({ numbers }) => numbers))
    for (const ways of numbersPromised(promise))
      t.true(
        ways.some(way => known.some(numbers => numbers.has(way))),
        `${id}: nothing that holds it says ${ways[0]}`,
      )
  }
})

test('the check detects violations', t => {
  t.true(holds({ file: 'test/promises.test.ts', title: 'the check detects violations' }))
  t.false(holds({ file: 'test/promises.test.ts', title: 'the check detects' }))
  t.false(holds({ file: 'test/nowhere.test.ts', title: null }))
  t.false(holds({ file: 'test/crash/blob-upkeep.test.ts', title: 'bundle the workflows once' }), 'a hook is no test')
  t.is(lastRun('- by hand, last run 0123abc: `bench/api.ts`'), '0123abc')
  t.is(lastRun('- `bench/api.ts`'), undefined)
  t.deepEqual(promisesIn('**X1** It is 2\nof 3.\n\n- `a` "b\n  c"\n- `d`\n\n**X2** No list.\n'), [
    { id: 'X1', promise: 'It is 2 of 3.', heldBy: '- `a` "b c" - `d`' },
  ])
  t.deepEqual(numbersPromised('0 of 1 in `12` within 3 s of 10,000, SHA-256, RFC 9110, kill -9'), [[3, 3000], [10_000]])
  t.deepEqual(
    [...numbersOf('2 * 1024 ** 2, ten_000, 5_000, twenty, five hundred')].sort((a, b) => a - b),
    [...[0, 2, 5, 20, 500, 1024, 5000, 2 * 1024 ** 2]],
  )
  t.true(agreed.length > 30)
})
