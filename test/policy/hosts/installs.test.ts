import test from 'ava'
import { installCacheMb } from '../../../policy/hosts/installs.ts'

test('a small disk keeps nine tenths for its applications', t => {
  t.is(installCacheMb(100_000, 4096), 4096)
  t.is(installCacheMb(40_000, 4096), 4000)
  t.is(installCacheMb(2000, 4096), 200)
  t.is(installCacheMb(100_000, 0), 0)
  t.is(installCacheMb(0, 4096), 0)
})
