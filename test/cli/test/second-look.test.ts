import test from 'ava'
import { sumOf } from '../../../cli/test/ava-output.ts'
import { countedFiles, filesOfSecondLook, reachingAll, unstableFiles } from '../../../cli/test/second-look.ts'

const passed = { passed: 2, failed: 0 }
const failed = { passed: 1, failed: 1 }
const many = Array.from({ length: 9 }, (_, n) => `test/${n}.test.ts`)

test('files that failed or were never reached run again', t => {
  const first = new Map([
    ['a', passed],
    ['b', failed],
  ])
  t.deepEqual(filesOfSecondLook(['a', 'b', 'c'], first), ['b', 'c'])
})

test('a run in which everything passed has no second run', t => {
  t.deepEqual(filesOfSecondLook(['a'], new Map([['a', passed]])), [])
})

test('failures of more than eight files, and a failure without a file, are final', t => {
  t.deepEqual(filesOfSecondLook(many, new Map(many.map(file => [file, failed]))), [])
  t.is(filesOfSecondLook(many, new Map(many.map((file, n) => [file, n === 0 ? passed : failed]))).length, 8)
  t.deepEqual(
    filesOfSecondLook(
      ['a'],
      new Map([
        ['a', failed],
        ['', failed],
      ]),
    ),
    [],
  )
})

test('a file is unstable when it failed first and passed alone', t => {
  const first = new Map([
    ['a', failed],
    ['b', failed],
  ])
  t.deepEqual(
    unstableFiles(
      first,
      new Map([
        ['a', passed],
        ['b', failed],
        ['c', passed],
      ]),
    ),
    ['a'],
  )
})

test('a failure counts although the file passes alone, unless that is allowed; for a file never reached the second run counts', t => {
  const first = new Map([
    ['a', failed],
    ['b', passed],
  ])
  const second = new Map([
    ['a', passed],
    ['c', passed],
  ])
  t.deepEqual(sumOf(countedFiles(first, second, false).values()), { passed: 5, failed: 1 })
  t.deepEqual(sumOf(countedFiles(first, second, true).values()), { passed: 6, failed: 0 })
})

test('a run that a hanging file has ended continues with the files that it never reached', async t => {
  const runs: string[][] = []
  const answers = [
    { a: passed, b: failed, '': failed },
    { c: passed, '': passed },
  ]
  const counts = await reachingAll(['a', 'b', 'c', 'd', 'e'], async files => {
    runs.push(files)
    return new Map(Object.entries(answers[runs.length - 1] ?? {}))
  })
  t.deepEqual(runs, [
    ['a', 'b', 'c', 'd', 'e'],
    ['c', 'd', 'e'],
    ['d', 'e'],
  ])
  t.deepEqual(Object.fromEntries(counts), { a: passed, b: failed, c: passed, '': { passed: 3, failed: 1 } })
})

test('a single file that was never reached is left to be run alone, and a run that reaches all is not repeated', async t => {
  for (const files of [
    ['a', 'b'],
    ['a', 'b', 'c'],
  ]) {
    let runs = 0
    await reachingAll(files, async () => {
      runs++
      return new Map([
        ['a', passed],
        ['b', passed],
      ])
    })
    t.is(runs, 1)
  }
})
