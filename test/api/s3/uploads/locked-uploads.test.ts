import test, { type ExecutionContext } from 'ava'
import { type Db, isUnavailable, isWithoutEffect } from '../../../../db/database.ts'
import { lockedSlotsOf } from '../../../../db/locked-slots.ts'
import { lockNames } from '../../../../db/objects/objects.ts'
import { NoTurn } from '../../../../db/unavailable.ts'
import { newId } from '../../../../policy/ids.ts'
import { lockedSlots } from '../../../../policy/locked-slots.ts'
import { objectName } from '../../../../policy/objects/object-names.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { sendFile, sent } from '../../../kit/actors/sent-files.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { holdLocks, waitingForLocks } from '../../../kit/rows/held-locks.ts'
import { s3Account } from '../../../kit/s3/account.ts'
import { opened } from '../../../kit/s3/parts.ts'
import { objectPath } from '../../../kit/s3/wire.ts'

const api = testApi()

const hold = (locking: (trx: Db) => Promise<unknown>) => holdLocks(api().db, locking)

const waiting = () => waitingForLocks(api().db)

/** Holds that requests of one account, which all wait, take its share of connections, and that another account gets its answers. */
async function sharesConnections(t: ExecutionContext, requests: Promise<{ status: number }>[], letGo: () => unknown) {
  const bob = await s3Account(api())
  const { perSubject } = lockedSlots(10)
  await comesTrue(async () => (await waiting()) >= perSubject)
  for (let n = 0; n < 2; n++) {
    t.is((await bob.wire.send('PUT', objectPath('private', newId()), { body: 'small' })).status, 200)
    t.is((await bob.wire.send('POST', `${objectPath('private', newId())}?uploads`)).status, 200)
  }
  t.is(await waiting(), perSubject)
  await letGo()
  t.deepEqual([...new Set((await Promise.all(requests)).map(({ status }) => status))], [200])
}

test.serial('an account whose parts all wait for one upload leaves connections for others', async t => {
  const ana = await s3Account(api())
  const id = await opened(ana, 'large')
  const letGo = await hold(trx => trx.raw('select 1 from uploads where id = ? for update', [id]))
  const parts = Array.from({ length: 12 }, (_, n) =>
    ana.wire.send('PUT', `${objectPath('private', 'large')}?partNumber=${n + 1}&uploadId=${id}`, { body: 'part' }),
  )
  await sharesConnections(t, parts, letGo)
})

test.serial('so does an account whose overwrites, keyed uploads, copies and moves all wait for one name', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a' })
  const sources = await Promise.all(
    Array.from({ length: 12 }, async (_, n) => (await sent(api(), ana, { name: `source-${n}` })).id),
  )
  const copying = (source: string, move: boolean) => {
    const body = { source, destination: { name: 'a' }, move, overwrite: true }
    return () => api().blobAs(ana).post('/v1/objects/copy', JSON.stringify(body))
  }
  const keyed = (n: number) => () =>
    sendFile(api(), ana, { name: 'a', overwrite: 'true' }, { headers: { 'idempotency-key': `${n}` } })
  const kinds: (() => Promise<{ status: number }>)[][] = [
    Array.from({ length: 12 }, () => () => sendFile(api(), ana, { name: 'a', overwrite: 'true' })),
    Array.from({ length: 12 }, (_, n) => keyed(n)),
    sources.map(source => copying(source, false)),
    sources.map(source => copying(source, true)),
  ]
  for (const requests of kinds) {
    const letGo = await hold(trx => lockNames(trx, [objectName(id)!]))
    await sharesConnections(
      t,
      requests.map(send => send()),
      letGo,
    )
  }
})

test.serial(
  'a caller that waits too long for its own account is asked to slow down, on each wire, and changes nothing',
  async t => {
    const { db } = api()
    const [{ pool }, ana] = [db.client, await s3Account(api())]
    const { id: object } = await sent(api(), ana.user, { name: 'a' })
    const leave = await Promise.all(
      Array.from({ length: lockedSlots(10).perSubject }, () => lockedSlotsOf(db).enter(ana.user.id)),
    )
    const waitMs = pool.acquireTimeoutMillis
    pool.acquireTimeoutMillis = 300
    try {
      const removal = await ana.wire.send('DELETE', objectPath('public', 'a.txt'))
      t.deepEqual([removal.status, removal.code, removal.headers['retry-after']], [503, 'SlowDown', '2'])
      const upload = await sendFile(api(), ana.user, { name: 'a', overwrite: 'true' })
      t.like(upload, { status: 429, body: { code: 'RATE_LIMITED' } })
      t.is(upload.headers.get('retry-after'), '2')
      const update = await api()
        .blobAs(ana.user)
        .request('PATCH', '/v1/objects', { body: JSON.stringify({ object, private: true }) })
      t.deepEqual(update.body.response.results, [{ object, ok: false, code: 'RATE_LIMITED' }])
    } finally {
      pool.acquireTimeoutMillis = waitMs
      for (const end of leave) end?.()
    }
    t.false(isUnavailable(new NoTurn()))
    t.true(isWithoutEffect(new NoTurn()))
    t.is((await ana.wire.send('DELETE', objectPath('public', 'a.txt'))).status, 204)
  },
)
