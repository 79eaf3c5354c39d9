import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { slowestFiles } from '../../../cli/test/durations.ts'
import { ownFolder } from '../../kit/folders.ts'

test('the ten slowest files of a run are listed, slowest first', t => {
  const path = join(ownFolder(t), 'durations')
  t.deepEqual(slowestFiles(path), [], 'no file has finished')
  const seconds = [3, 20.4, 1, 11, 5, 6, 7, 8, 9, 10, 100.6, 2]
  writeFileSync(path, seconds.map(n => `${n} test/a/${Math.trunc(n)}.test.ts\n`).join(''))
  t.deepEqual(slowestFiles(path), [
    '  101 s  test/a/100.test.ts',
    '   20 s  test/a/20.test.ts',
    ...[11, 10, 9, 8, 7, 6, 5, 3].map(n => `${String(n).padStart(5)} s  test/a/${n}.test.ts`),
  ])
})
