import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { makeNeighbourRoom, neighbourRoom } from '../../../activities/containers/neighbour-table.ts'

test('the table of neighbours has room for all containers, and never shrinks', t => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-neighbours-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const set = (second: number, third: number) => {
    writeFileSync(join(folder, 'gc_thresh2'), `${second}\n`)
    writeFileSync(join(folder, 'gc_thresh3'), `${third}\n`)
  }
  const now = () => ['gc_thresh2', 'gc_thresh3'].map(name => Number(readFileSync(join(folder, name), 'utf8')))
  set(512, 1024)
  makeNeighbourRoom(neighbourRoom(24_000), folder)
  t.deepEqual(now(), [12_000, 24_000])
  set(512, 100_000)
  makeNeighbourRoom(neighbourRoom(256), folder)
  t.deepEqual(now(), [8192, 100_000])
  t.throws(() => makeNeighbourRoom(1, join(folder, 'nowhere')), { code: 'ENOENT' })
})
