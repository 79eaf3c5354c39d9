import test from 'ava'
import { databaseFindings, offerWords } from '../../../cli/databases/offer.ts'
import { databaseSettings } from '../../../policy/databases/database-settings.ts'

const settings = (env: Record<string, string>) => databaseSettings(env, 'apps.example')
const all = Object.fromEntries(
  ['mongo:8', 'mysql:9', 'redis:8', 'redis:7', 'postgres:17'].map(image => [`berth/${image}`, 'ready']),
)
const host = (id: string, images: Record<string, string>, reachable = true) => ({
  ...{ id, reachable },
  database_images: { ...all, ...images },
})
const missing = 'No registry answers.\nGive the host a registry.'

test('the offer is one line, which names the stand-in', t => {
  t.is(offerWords(settings({})), 'mongo 8, mysql 9, redis 8 and 7, postgres 17')
  t.regex(
    offerWords(settings({ DATABASE_ENGINES: 'redis,mongo', MONGO_STAND_IN: 'on' })),
    /^redis.*mongo 8 \(a stand-in/,
  )
  t.regex(offerWords(settings({ DATABASE_ENGINES: 'none', MONGO_STAND_IN: 'on' })), /^none: DATABASE_ENGINES/)
})

test('hosts that have every image are no finding', t => {
  t.deepEqual(databaseFindings(settings({}), [host('h1', {})]), [
    { name: 'databases', state: offerWords(settings({})) },
  ])
})

test('images that hosts do not have are reported with the reason; a silent host reports nothing', t => {
  const [, ...findings] = databaseFindings(settings({}), [
    host('h1', { 'berth/mysql:9': missing, 'berth/redis:7': undefined as never }),
    host('h2', { 'berth/mysql:9': missing }),
    host('h3', { 'berth/mysql:9': missing }, false),
  ])
  t.deepEqual(findings, [
    {
      name: 'Databases on h1, h2',
      state: 'berth/mysql:9 NOT AVAILABLE: No registry answers.',
      remedy: 'Give the host a registry.',
    },
    { name: 'Databases on h1', state: 'berth/redis:7 is being prepared', remedy: undefined },
  ])
})

test('types that are not offered need no image', t => {
  t.is(databaseFindings(settings({ DATABASE_ENGINES: 'redis' }), [host('h1', { 'berth/mysql:9': missing })]).length, 1)
})

test('the stand-in is reported, with the hosts that use it; these lack nothing', t => {
  const on = settings({ MONGO_STAND_IN: 'on' })
  const h1 = host('h1', { 'berth/mongo:8': missing, 'berth/mongo-stand-in:8': 'ready' })
  const h2 = host('h2', { 'berth/mongo-stand-in:8': 'ready' })
  const [, standIn, ...others] = databaseFindings(on, [h1, h2])
  t.regex(standIn!.state, /SecantusDB \(beta, not MongoDB\).*it is used on h1$/)
  t.regex(standIn!.remedy!, /remove MONGO_STAND_IN/)
  t.deepEqual(others, [])
  t.regex(databaseFindings(on, [h2])[1]!.state, /no host needs it/)
  const off = databaseFindings(settings({}), [h1])
  t.is(off.length, 2)
  t.regex(off[1]!.state, /berth\/mongo:8 NOT AVAILABLE/, 'without the setting nothing replaces it')
})
