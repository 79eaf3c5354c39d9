import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import test from 'ava'
import { holds, isByHand, lastRun, type Named, namedIn, numbersOf, numbersPromised } from './kit/promises.ts'

const rows = readFileSync('PROMISES.md', 'utf8')
  .split('\n')
  .filter(line => /^\| [A-Z]\d+ \|/.test(line))
const cellsOf = (row: string): string[] => row.split('|').map(cell => cell.trim())
const isOpen = (row: string): boolean => /\*\*open\*\*/i.test(row)

test('every promise has a number and names a test or bench that exists, or says that it is open', t => {
  t.true(rows.length > 40)
  const ids = rows.map(row => cellsOf(row)[1])
  t.deepEqual(
    ids.filter((id, at) => ids.indexOf(id) !== at),
    [],
  )
  for (const row of rows) {
    const [, id, promise] = cellsOf(row)
    t.regex(promise ?? '', /\d/, `${id} has no number`)
    t.true(isOpen(row) || namedIn(row).length > 0, `${id} is neither held nor open`)
    for (const named of namedIn(row)) t.true(holds(named), `${id}: ${named.file} "${named.title}"`)
  }
})

test('every failure of a database names tests that exist', t => {
  const failures = readFileSync('docs/decisions/database-failures.md', 'utf8').split('\n')
  const held = failures.filter(line => namedIn(line).length > 0 && line.startsWith('| '))
  t.true(held.length > 10)
  for (const row of held) for (const named of namedIn(row)) t.true(holds(named), `${named.file} "${named.title}"`)
})

test('what ./berth test does not run holds a promise only with the commit of its last run', t => {
  for (const row of rows)
    if (!isOpen(row) && namedIn(row).some(isByHand)) t.truthy(lastRun(row), `${cellsOf(row)[1]} is measured by hand`)
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
  for (const row of rows.filter(row => !isOpen(row))) {
    const [, id, promise] = cellsOf(row)
    const known = namedIn(row).map(named => numbersOf(sourceOf(named)))
    known.push(...agreed.filter(({ reason }) => new RegExp(`\\b${id}\\b`).test(reason)).map(({ numbers }) => numbers))
    for (const ways of numbersPromised(promise ?? ''))
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
  t.is(lastRun('| X1 | 2 | by hand, last run 0123abc: `bench/api.ts` |'), '0123abc')
  t.is(lastRun('| X1 | 2 | `bench/api.ts` |'), undefined)
  t.deepEqual(numbersPromised('0 of 1 in `12` within 3 s of 10,000, SHA-256, RFC 9110, kill -9'), [[3, 3000], [10_000]])
  t.deepEqual(
    [...numbersOf('2 * 1024 ** 2, ten_000, 5_000, twenty, five hundred')].sort((a, b) => a - b),
    [...[0, 2, 5, 20, 500, 1024, 5000, 2 * 1024 ** 2]],
  )
  t.true(agreed.length > 30)
})
