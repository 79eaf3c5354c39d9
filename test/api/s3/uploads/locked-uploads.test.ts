import test from 'ava'
import { openDatabase } from '../../../../db/database.ts'
import { newId } from '../../../../policy/ids.ts'
import { lockedSlots } from '../../../../policy/locked-slots.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { s3Account } from '../../../kit/s3/account.ts'
import { opened } from '../../../kit/s3/parts.ts'
import { objectPath } from '../../../kit/s3/wire.ts'

const api = testApi()

/** Holds an upload as a slow transaction of its account does; resolves to how to let it go. */
async function hold(id: string): Promise<() => Promise<unknown>> {
  const other = openDatabase({ url: api().db.client.config.connection.connectionString, pool: 1 })
  const trx = await other.transaction()
  await trx.raw('select 1 from uploads where id = ? for update', [id])
  return async () => {
    await trx.rollback()
    await other.destroy()
  }
}

const waiting = async (): Promise<number> => {
  const { rows } = await api().db.raw(
    `select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
  )
  return rows[0].n
}

test.serial('an account whose parts all wait for one upload leaves connections for others', async t => {
  const [ana, bob] = [await s3Account(api()), await s3Account(api())]
  const id = await opened(ana, 'large')
  const letGo = await hold(id)
  const parts = Array.from({ length: 12 }, (_, n) =>
    ana.wire.send('PUT', `${objectPath('private', 'large')}?partNumber=${n + 1}&uploadId=${id}`, { body: 'part' }),
  )
  const { perSubject } = lockedSlots(10)
  await comesTrue(async () => (await waiting()) >= perSubject)
  for (let n = 0; n < 2; n++) {
    t.is((await bob.wire.send('PUT', objectPath('private', newId()), { body: 'small' })).status, 200)
    t.is((await bob.wire.send('POST', `${objectPath('private', newId())}?uploads`)).status, 200)
  }
  t.is(await waiting(), perSubject)
  await letGo()
  t.deepEqual([...new Set((await Promise.all(parts)).map(({ status }) => status))], [200])
})
