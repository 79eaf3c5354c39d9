import test from 'ava'
import { keepAccountsKnown } from '../../../workers/loops/analytics-accounts.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('analytics get the account of every application with an address, and get it again after a failure', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const [one, other] = [await make.user(), await make.user()]
  const apps = [await make.app(one.id), await make.app(one.id), await make.app(other.id)]
  const silent = await make.app(other.id)
  await db('apps').where({ id: silent.app.id }).update({ subdomain: null })
  const ending = new AbortController()
  t.teardown(() => ending.abort())
  const sent: (readonly (readonly [string, string])[])[] = []
  const warnings: object[] = []
  const loop = keepAccountsKnown(
    {
      db,
      async send(accounts) {
        if (warnings.length === 0) throw new Error('away')
        sent.push(accounts)
      },
      log: { warn: (fields: object) => void warnings.push(fields) },
      everySeconds: 0.01,
    },
    ending.signal,
  )
  await comesTrue(() => sent.length > 0)
  ending.abort()
  await loop
  t.is(warnings.length, 1)
  const expected = apps.map(({ app }, n) => [app.id, n < 2 ? one.id : other.id])
  t.deepEqual(sent[0]!.toSorted(), expected.toSorted())
})
