import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { MiB } from '../../../lib/bytes.ts'
import { freeBytes } from '../../../lib/folders/free-bytes.ts'
import { ownFolder } from '../../kit/folders.ts'
import { demandRoot } from '../../kit/root.ts'

test('free space is that of the fullest disk, also for a folder that does not exist yet; another machine’s does not count', async t => {
  demandRoot()
  const folder = ownFolder(t)
  const small = join(folder, 'small')
  mkdirSync(small)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=3m', 'tmpfs', small])
  t.teardown(() => void execFileSync('umount', ['--lazy', small]))
  t.is(await freeBytes([folder, small], null), 3 * MiB)
  t.is(await freeBytes([folder, join(small, 'not/yet')], null), 3 * MiB)
  t.is(await freeBytes([folder], small), 3 * MiB)
  t.true((await freeBytes([folder], join(small, 'elsewhere'))) > 3 * MiB)
  t.is(await freeBytes([], null), Number.POSITIVE_INFINITY)
})
