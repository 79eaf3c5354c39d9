import test from 'ava'
import { pino } from 'pino'
import { keepPlatformRows } from '../../../workers/loops/platform-names.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const authority = 'https://new.test'

test('after a change of the authority names are due from the start on, as fast as certificates may be ordered', async t => {
  const { db } = await database
  const { id } = await rows(db).user()
  const tomorrow = new Date(Date.now() + 86_400_000)
  await db.raw(
    `insert into domains (hostname, owner_id, proved_at, look_at, created_at)
     select 'n' || n || '.shop.dev', :id, now(), :tomorrow, now() - make_interval(mins => 1000 - n)
       from generate_series(0, 255) n`,
    { id, tomorrow },
  )
  const certificate = (hostname: string, of: string) =>
    db.raw(
      `insert into certificates (id, hostname, state, authority, chain, key_sealed, not_after)
       values (md5(:hostname), :hostname, 'current', :of, 'PEM', '', now())`,
      { hostname, of },
    )
  await certificate('n0.shop.dev', 'https://old.test')
  await certificate('n1.shop.dev', authority)
  await db.raw(
    `insert into certificates (id, hostname, state, authority, order_url)
     values (md5('n2'), 'n2.shop.dev', 'ordered', :authority, 'https://new.test/1')`,
    { authority },
  )
  await db('domains').where({ hostname: 'n3.shop.dev' }).update({ order_at: tomorrow })
  await db('domains').where({ hostname: 'n4.shop.dev' }).update({ proved_at: null })

  const ending = new AbortController()
  const began = Date.now()
  const ended = keepPlatformRows(
    {
      ...{ db, authority, names: [], domains: { wake: async () => {} }, ownCertificates: async () => null },
      log: pino({ level: 'silent' }),
    },
    ending.signal,
  )
  const waits = async (n: number) => {
    const { look_at } = await db('domains')
      .where({ hostname: `n${n}.shop.dev` })
      .first('look_at')
    return look_at.getTime()
  }
  await comesTrue(async () => (await waits(0)) < tomorrow.getTime())
  ending.abort()
  await ended
  const first = await waits(0)
  t.true(first >= began - 1000 && first <= Date.now(), 'now')
  for (const n of [1, 2, 3, 4]) t.is(await waits(n), tomorrow.getTime(), `n${n} has one, or waits for something`)
  // Four of the first five are left out.
  const seconds = async (n: number) => ((await waits(n)) - first) / 1000
  t.deepEqual(await Promise.all([5, 6, 253].map(seconds)), [1, 2, 249])
  t.deepEqual(await Promise.all([254, 255].map(seconds)), [10_800, 10_801], 'the limit of a window')
})
