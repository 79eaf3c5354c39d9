import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { readUsage } from '../../../../db/objects/blob-usage.ts'
import { blobSettings } from '../../../../policy/objects/blob-settings.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { madeObject } from '../../../kit/objects/stored-objects.ts'
import { storedFor } from '../../../kit/s3/remains.ts'
import { type WireAnswer, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi({ config: { blob: blobSettings({ BLOB_CONCURRENT_UPLOADS: '32' }) } })
const codesOf = (answers: readonly WireAnswer[]) => answers.map(({ status, code }) => code ?? String(status)).sort()
const twenty = <T>(work: (n: number) => T) => Array.from({ length: 20 }, (_, n) => work(n))
const losers = Array.from({ length: 19 }, () => 'PreconditionFailed')
/** Bytes of a body that is stored with its row, and of one in the object store. */
const sizes = [10, 20_000]

test('of twenty concurrent writers with If-None-Match exactly one succeeds', async t => {
  for (const size of sizes) {
    const ana = await api().makeUser()
    const wire = await wireOf(api(), ana)
    const bodyOf = (n: number) => `${n} `.padEnd(size, 'x')
    const headers = { 'if-none-match': '*' }
    const answers = await Promise.all(twenty(n => wire.send('PUT', '/private/lock', { body: bodyOf(n), headers })))
    t.deepEqual(codesOf(answers), ['200', ...losers])
    const winner = answers.findIndex(({ status }) => status === 200)
    const got = await wire.send('GET', '/private/lock')
    t.is(got.text, bodyOf(winner))
    t.is(got.headers.etag, answers[winner]!.headers.etag)
    t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: size })
    t.like(await storedFor(api(), ana), { objects: 1, unreferenced: 0, slots: 0 })
    const after = await wire.send('PUT', '/private/lock', { body: 'x', headers })
    t.deepEqual([after.status, after.code], [412, 'PreconditionFailed'])
    await wire.send('DELETE', '/private/lock')
    t.is((await wire.send('PUT', '/private/lock', { body: 'x', headers })).status, 200)
  }
})

test('of twenty concurrent writers with the same If-Match exactly one succeeds', async t => {
  for (const size of sizes) {
    const ana = await api().makeUser()
    const wire = await wireOf(api(), ana)
    const { etag } = (await wire.send('PUT', '/private/state', { body: 'first' })).headers
    const bodyOf = (n: number) => `${n} `.padEnd(size, 'x')
    const headers = { 'if-match': etag! }
    const answers = await Promise.all(twenty(n => wire.send('PUT', '/private/state', { body: bodyOf(n), headers })))
    t.deepEqual(codesOf(answers), ['200', ...losers])
    t.is((await wire.send('GET', '/private/state')).text, bodyOf(answers.findIndex(({ status }) => status === 200)))
    t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: size })
    t.like(await storedFor(api(), ana), { objects: 1, unreferenced: 0, slots: 0 })
  }
})

test('a counter that twenty clients increase by If-Match loses no step', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await wire.send('PUT', '/private/counter', { body: '0' })
  const increase = async (): Promise<number> => {
    for (let tries = 1; ; tries++) {
      const { text, headers } = await wire.send('GET', '/private/counter')
      const put = await wire.send('PUT', '/private/counter', {
        body: String(Number(text) + 1),
        headers: { 'if-match': headers.etag! },
      })
      if (put.status === 200) return tries
      t.is(put.code, 'PreconditionFailed')
      await sleep(1)
    }
  }
  await Promise.all(twenty(increase))
  t.is((await wire.send('GET', '/private/counter')).text, '20')
})

test('twenty unconditional writers all succeed, and one of their bodies is stored whole', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const bodyOf = (n: number) => String(n % 10).repeat(20_000)
  const answers = await Promise.all(twenty(n => wire.send('PUT', '/private/k', { body: bodyOf(n) })))
  t.deepEqual(
    codesOf(answers),
    twenty(() => '200'),
  )
  const { text, headers } = await wire.send('GET', '/private/k')
  t.is(headers.etag, `"${createHash('md5').update(text).digest('hex')}"`)
  t.is(text, text[0]!.repeat(20_000))
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 20_000 })
})

test('If-Match on a missing key is NoSuchKey, and unsupported conditions are refused', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const put = (headers: Record<string, string>) => wire.send('PUT', '/private/k', { body: 'hello', headers })
  for (const match of ['*', '"x"']) {
    const { status, code } = await put({ 'if-match': match })
    t.deepEqual([status, code], [404, 'NoSuchKey'], match)
  }
  for (const headers of [{ 'if-none-match': '"x"' }, { 'if-match': '*', 'if-none-match': '*' }] as Record<
    string,
    string
  >[])
    t.deepEqual((await put(headers)).code, 'NotImplemented')
  t.deepEqual(await api().db('objects').where({ owner_id: ana.id }), [])
  await put({})
  for (const match of ['*', '"5d41402abc4b2a76b9719d911017c592"', '5d41402abc4b2a76b9719d911017c592'])
    t.is((await put({ 'if-match': match })).status, 200, match)
  t.is((await put({ 'if-match': '"x"' })).code, 'PreconditionFailed')
})

test('conditions treat an expired object as missing', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await madeObject(api(), ana, { key: 'k', expiresAt: new Date(Date.now() - 1000) })
  t.is((await wire.send('PUT', '/private/k', { body: 'x', headers: { 'if-match': '*' } })).code, 'NoSuchKey')
  t.is((await wire.send('PUT', '/private/k', { body: 'x', headers: { 'if-none-match': '*' } })).status, 200)
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 1 })
})
