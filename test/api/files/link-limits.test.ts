import { Readable } from 'node:stream'
import test from 'ava'
import { hashPassword } from '../../../api/v1/share-passwords.ts'
import { linking } from '../../../api/v2/snapshots/snapshots.ts'
import { linkView } from '../../../api/views/snapshot.ts'
import { transaction } from '../../../db/database.ts'
import * as segments from '../../../db/objects/segments.ts'
import { markSnapshotGood, queueSnapshot } from '../../../db/snapshots/snapshots.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { type TestUser, testApi } from '../../kit/actors/api.ts'
import { here, madeObject } from '../../kit/objects/stored-objects.ts'

const api = testApi({
  scale: 1,
  services: base => ({
    config: { ...base.config, trustedProxies: ['127.0.0.1'] },
    isInside: address => !address.startsWith('2001:db8:5:'),
  }),
})

/** How often each status is the answer to as many visits at once, and one of the answers of the highest. */
async function visits(url: string, count: number, address: string, init: RequestInit = {}) {
  const headers = { 'x-forwarded-for': address, ...init.headers }
  const answers = await Promise.all(
    Array.from({ length: count }, async () => {
      const answer = await fetch(url, { redirect: 'manual', ...init, headers })
      return { status: answer.status, text: await answer.text(), headers: answer.headers }
    }),
  )
  const counts: Record<number, number> = {}
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1
  return { counts, last: answers.toSorted((a, b) => b.status - a.status)[0]! }
}

/** The link of a good snapshot, as a lane makes it. */
async function madeSnapshot(user: TestUser): Promise<string> {
  const { db, store, services } = api()
  const { id: appId } = await api().makeApp(user)
  const row = await queueSnapshot(db, {
    appId,
    ownerId: user.id,
    actor: user.id,
    origin: 'manual',
    plans: defaultPlans,
  })
  const segmentId = await segments.allocateSegment(db)
  const { size, sha256 } = await store.put(segmentId, Readable.from(['archive']))
  await transaction(db, trx => markSnapshotGood(trx, row.operation_id, { segmentId, size, sha256, digest: 'd' }))
  return here(api(), linkView(row, linking(services)).url)
}

/** The address of a share with the password `correct horse`. */
async function protectedShare(user: TestUser): Promise<string> {
  const { id } = await madeObject(api(), user)
  const body = JSON.stringify({ object: id, password: 'correct horse' })
  const share = await api().blobAs(user).post('/v1/shares', body)
  return here(api(), share.body.response.url)
}

/** However long this machine takes, the minute is not over. */
async function hold(link: string, address: string): Promise<void> {
  await visits(link, 1, address)
  await api().db('rate_limits').where('key', 'like', `%${address}%`).update({ window_ends_at: '2100-01-01' })
}

test('a temporary link has 60 requests a minute from one address', async t => {
  const ana = await api().makeUser()
  const link = async () => {
    const { id } = await madeObject(api(), ana)
    const answer = await api().blobAs(ana).get(`/v1/objects/download?object=${id}&redirect=false`)
    return here(api(), answer.body.response.url)
  }
  const url = await link()
  await hold(url, '10.1.1.1')
  const { counts, last } = await visits(url, 64, '10.1.1.1')
  t.deepEqual(counts, { 200: 59, 429: 5 })
  t.is(last.headers.get('content-type'), 'text/plain; charset=utf-8')
  t.true(Number(last.headers.get('retry-after')) > 0)
  t.deepEqual((await visits(url, 1, '10.1.1.2')).counts, { 200: 1 })
  t.deepEqual((await visits(await link(), 1, '10.1.1.1')).counts, { 200: 1 })
})

test('a share has 120 visits a minute from one address, whatever they are', async t => {
  const ana = await api().makeUser()
  const url = await protectedShare(ana)
  await hold(url, '10.2.1.1')
  t.deepEqual((await visits(url, 117, '10.2.1.1')).counts, { 200: 117 })
  const form = { method: 'POST', body: new URLSearchParams({ password: 'wrong' }) }
  const { counts, last } = await visits(url, 5, '10.2.1.1', form)
  t.deepEqual(counts, { 403: 2, 429: 3 })
  t.is(last.headers.get('content-type'), 'text/plain; charset=utf-8')
  t.deepEqual((await visits(url, 1, '10.2.1.2')).counts, { 200: 1 })
})

test('ten wrong passwords in ten minutes, also concurrent ones; right ones do not count', async t => {
  const ana = await api().makeUser()
  const url = await protectedShare(ana)
  const form = (password: string) => ({ method: 'POST', body: new URLSearchParams({ password }) })
  for (let n = 0; n < 2; n++) t.deepEqual((await visits(url, 6, '10.3.1.1', form('correct horse'))).counts, { 303: 6 })
  t.deepEqual((await visits(url, 5, '10.3.1.1', form('wrong'))).counts, { 403: 5 })
  t.deepEqual((await visits(url, 11, '10.3.1.1', form('wrong'))).counts, { 403: 5, 429: 6 })
  t.deepEqual((await visits(url, 1, '10.3.1.1', form('correct horse'))).counts, { 429: 1 })
  t.deepEqual((await visits(url, 1, '10.3.1.2', form('correct horse'))).counts, { 303: 1 })
})

test('a password that finds no room to be compared does not count', async t => {
  const ana = await api().makeUser()
  const url = await protectedShare(ana)
  let isAnswered = false
  // The next one begins as soon as one ends, however long the visits take.
  const hashing = async () => {
    while (!isAnswered) await hashPassword(ana.id, 'another share')
  }
  const busy = Promise.all(Array.from({ length: 6 }, hashing))
  const form = { method: 'POST', body: new URLSearchParams({ password: 'wrong' }) }
  try {
    t.deepEqual((await visits(url, 3, '10.6.1.1', form)).counts, { 429: 3 })
  } finally {
    isAnswered = true
  }
  await busy
  const rows = await api().db('rate_limits').where('key', 'like', '%links.password%10.6.1.1%')
  t.deepEqual(
    rows.map(({ used }) => used),
    [0],
  )
})

test('an IPv6 network is one visitor, whichever of its addresses it visits from', async t => {
  const ana = await api().makeUser()
  const { id } = await madeObject(api(), ana)
  const made = await api()
    .blobAs(ana)
    .post('/v1/shares', JSON.stringify({ object: id }))
  const answer = await api().blobAs(ana).get(`/v1/objects/download?object=${id}&redirect=false`)
  const counted = { share: here(api(), made.body.response.url), link: here(api(), answer.body.response.url) }
  for (const [kind, url] of Object.entries(counted)) {
    for (const address of ['2001:db8:4:1::1', '2001:db8:4:1:ffff::2', '2001:db8:4:2::1']) await visits(url, 1, address)
    const rows = await api()
      .db('rate_limits')
      .where('key', 'like', `%${kind === 'link' ? 'temporary' : kind}/link+address/%2001:db8:4:%`)
    t.deepEqual(rows.map(({ used }) => used).sort(), [1, 2], kind)
  }
})

test('a snapshot link has 300 visits a minute from one network, and spends nothing of the API’s budget', async t => {
  const ana = await api().makeUser()
  const url = await madeSnapshot(ana)
  const range = { headers: { range: 'bytes=1-2' } }
  for (const address of ['2001:db8:5:1::1', '2001:db8:5:1::2'])
    t.deepEqual((await visits(url, 1, address)).counts, { 200: 1 })
  const counted = () => api().db('rate_limits').where('key', 'like', '%2001:db8:5:%').select('key', 'used')
  const [row, ...others] = await counted()
  t.deepEqual([row.used, others], [2, []])
  await api().db('rate_limits').where({ key: row.key }).update({ used: 290, window_ends_at: '2100-01-01' })
  const { counts, last } = await visits(url, 15, '2001:db8:5:1::3', range)
  t.deepEqual(counts, { 206: 10, 429: 5 })
  t.is(last.headers.get('content-type'), 'text/plain; charset=utf-8')
  t.deepEqual((await visits(url, 1, '2001:db8:5:2::1')).counts, { 200: 1 }, 'another network')
  const me = await api().as(ana).get('/v2/users/me', { 'x-forwarded-for': '2001:db8:5:1::1' })
  t.is(me.status, 200)
})
