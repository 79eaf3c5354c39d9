import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { dayOf, expireDays } from '../../../activities/analytics/expired-days.ts'
import { retainedDays } from '../../../policy/network/analytics-terms.ts'
import { dayMs } from '../../kit/analytics/intake-scene.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'

const dayAgo = (days: number) => dayOf(Date.now() - days * dayMs)

test('days that are older than addresses are retained go with all their files, and nothing else does', async t => {
  const folder = ownFolder(t)
  const [old, kept] = [dayAgo(retainedDays), dayAgo(retainedDays - 2)]
  const files = (day: string) => ['duckdb', 'duckdb.wal', 'duckdb.broken', 'dropped'].map(end => `${day}.${end}`)
  for (const name of [...files(old), ...files(kept), `${old}.txt`]) writeFileSync(join(folder, name), '')
  mkdirSync(join(folder, 'scratch'))
  writeFileSync(join(folder, 'scratch', 'slice.json'), 'what a killed engine was taking in')
  const ending = new AbortController()
  const ended = expireDays(folder, { over: ending.signal, onError: error => t.fail(String(error)) })
  await comesTrue(() => !readdirSync(folder).includes(`${old}.duckdb`))
  ending.abort()
  await ended
  t.deepEqual(readdirSync(folder).sort(), [...files(kept), `${old}.txt`].sort())
})

test('a folder that was never made has no days', async t => {
  const ending = new AbortController()
  const ended = expireDays(join(ownFolder(t), 'analytics'), {
    over: ending.signal,
    onError: error => t.fail(String(error)),
  })
  ending.abort()
  await ended
  t.pass()
})
