import test from 'ava'
import { parseConfig } from '../../../policy/config.ts'
import { imagesOnOffer } from '../../../policy/databases/database-settings.ts'

const settings = (env: Record<string, string>) => parseConfig(env, '/').databases

test('all types are offered on this machine by default, without the stand-in', t => {
  const databases = settings({ BERTH_DOMAIN: 'example.com' })
  t.deepEqual(databases, {
    engines: ['mongo', 'mysql', 'redis', 'postgres'],
    mongoStandIn: false,
    redisSync: 'always',
    ports: { from: 20_000, to: 24_999 },
    bind: '127.0.0.1',
    domain: 'apps.example.com',
    drillDays: 7,
  })
  t.deepEqual(imagesOnOffer(databases), [
    'berth/mongo:8',
    'berth/mysql:9',
    'berth/redis:8',
    'berth/redis:7',
    'berth/postgres:17',
  ])
})

test('drills are due after some days, or never; not after evidence was deleted', t => {
  t.is(settings({ DATABASE_DRILL_DAYS: '0' }).drillDays, 0)
  t.is(settings({ DATABASE_DRILL_DAYS: '365' }).drillDays, 365)
  for (const days of ['366', '-1', '1.5', 'weekly'])
    t.throws(() => settings({ DATABASE_DRILL_DAYS: days }), { message: /DATABASE_DRILL_DAYS/ }, days)
})

test('an operator may prefer the speed of Redis', t => {
  t.is(settings({ DATABASE_REDIS_SYNC: 'everysec' }).redisSync, 'everysec')
  t.throws(() => settings({ DATABASE_REDIS_SYNC: 'no' }), { message: /DATABASE_REDIS_SYNC/ })
})

test('an operator chooses the types and their order, or none; the stand-in belongs to mongo', t => {
  t.deepEqual(settings({ DATABASE_ENGINES: 'redis, postgres,redis' }).engines, ['redis', 'postgres'])
  const none = settings({ DATABASE_ENGINES: 'none', MONGO_STAND_IN: 'on' })
  t.deepEqual(none.engines, [])
  t.deepEqual(imagesOnOffer(none), [])
  const standIn = settings({ DATABASE_ENGINES: 'mongo,redis', MONGO_STAND_IN: 'on' })
  t.deepEqual(imagesOnOffer(standIn).slice(0, 2), ['berth/mongo:8', 'berth/mongo-stand-in:8'])
  for (const wrong of ['mariadb', 'none,redis', ',', 'Redis'])
    t.throws(() => settings({ DATABASE_ENGINES: wrong }), { message: /^The setting DATABASE_ENGINES is / }, wrong)
  t.throws(() => settings({ MONGO_STAND_IN: 'yes' }), { message: /MONGO_STAND_IN/ })
})

test('the address of databases is one of IPv4, else the error names the setting', t => {
  t.is(settings({}).bind, '127.0.0.1')
  t.is(settings({ DATABASE_BIND: '0.0.0.0' }).bind, '0.0.0.0')
  for (const wrong of ['localhost', '0.0.0', '256.1.1.1', '::', '0.0.0.0 '])
    t.throws(
      () => settings({ DATABASE_BIND: wrong }),
      { message: /^The setting DATABASE_BIND is .* IPv4 address/ },
      wrong,
    )
})

test('ports are a range of unprivileged ones', t => {
  t.deepEqual(settings({ DATABASE_PORTS: '30000-30000' }).ports, { from: 30_000, to: 30_000 })
  for (const wrong of ['30000', '30001-30000', '1023-2000', '60000-65536', 'a-b', '30000-30010,', '-1-5'])
    t.throws(() => settings({ DATABASE_PORTS: wrong }), { message: /^The setting DATABASE_PORTS is / }, wrong)
})

test('names and addresses of databases can differ from those of applications', t => {
  const own = { APPS_DOMAIN: 'apps.test', DATABASE_DOMAIN: 'db.test', DATABASE_BIND: '0.0.0.0' }
  t.like(settings(own), { domain: 'db.test', bind: '0.0.0.0' })
  t.is(settings({ APPS_DOMAIN: 'apps.test' }).domain, 'apps.test')
})
