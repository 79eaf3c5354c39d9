import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { recordNames } from '../../../activities/placement/job.ts'
import { type Change, Journal } from '../../../activities/placement/journal.ts'
import { Tree } from '../../../lib/folders/tree.ts'

test('a truncated line is no change, and the next change gets its own line', t => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-journal-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const [first, next]: Change[] = [
    ['put', 'a'],
    ['take', 'b'],
  ]
  const file = join(folder, recordNames.journal)
  writeFileSync(file, `${JSON.stringify(first)}\n["put","cu`)
  const release = new Tree(folder)
  t.teardown(() => release.close())
  const journal = new Journal(release)
  t.deepEqual(journal.changes, [first])
  t.is(journal.record([next!]), 1)
  journal.close()
  t.is(readFileSync(file, 'utf8'), `${JSON.stringify(first)}\n${JSON.stringify(next)}\n`)
  const again = new Journal(release)
  t.deepEqual(again.changes, [first, next])
  again.close()
})
