import test from 'ava'
import { routeVersion, versionAfterPurge } from '../../../policy/edge/route-version.ts'

test('a version differs with each release and each purge', t => {
  const all = [0, 1, 11].flatMap(release => [0, 1, 11].map(cacheVersion => routeVersion({ release, cacheVersion })))
  t.is(new Set(all).size, all.length)
})

test('a purge keeps the release of the version, unless that is unreadable', t => {
  const served = { release: 7, cacheVersion: 3 }
  t.is(versionAfterPurge('8.2', served), '8.3')
  t.is(versionAfterPurge('7.2', served), '7.3')
  for (const unreadable of [undefined, '', 'x', '8', '8.2.1']) t.is(versionAfterPurge(unreadable, served), '7.3')
})
