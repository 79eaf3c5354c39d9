import test from 'ava'
import { findObject } from '../../../../db/objects/objects.ts'
import { objectName } from '../../../../policy/objects/object-names.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'
import { madeObject } from '../../../kit/objects/stored-objects.ts'

const api = testApi()
const inDays = (days: number) => new Date(Math.floor(Date.now() / 1000 + days * 86_400) * 1000)
const secondsOf = (end: Date | string) => new Date(end).getTime() / 1000

async function withEnd(user: TestUser, object: string, expire: string | null) {
  const body = JSON.stringify({ object, expire })
  const answer = await api().blobAs(user).request('PATCH', '/v1/objects', { body })
  return answer.body.response.results[0]
}

/** A share and a temporary link of an object, and the status of a visit of each. */
async function linksTo(user: TestUser, object: string) {
  const actor = api().blobAs(user)
  const share = await actor.post('/v1/shares', JSON.stringify({ object }))
  const link = await actor.get(`/v1/objects/download?${new URLSearchParams({ object, redirect: 'false' })}`)
  const paths = [share, link].map(({ body }) => new URL(body.response.url).pathname)
  return () => Promise.all(paths.map(async path => (await fetch(api().filesUrl + path)).status))
}

test('a suffix in an S3 name that only looks like an expiry stays a part of the name', async t => {
  const ana = await api().makeUser()
  const { id } = await madeObject(api(), ana, { key: 'backup-ex1700000000.tar' })
  t.like(await withEnd(ana, id, null), { ok: true, changed: false, id, expires_at: null })
  const later = await withEnd(ana, id, '30d')
  t.is(later.id, `prv/${ana.id}/backup-ex1700000000-ex${secondsOf(later.expires_at)}.tar`)
  t.like(await withEnd(ana, later.id, null), { changed: true, id })
})

test('a changed end ends links to an object whose name S3 chose without it', async t => {
  const ana = await api().makeUser()
  const ruled = await madeObject(api(), ana, { key: 'ruled.bin', expiresAt: inDays(30) })
  const folder = await madeObject(api(), ana, { key: 'my photos/' })
  for (const [{ id }, expire] of [
    [ruled, null],
    [folder, '30d'],
    [folder, '60d'],
    [folder, null],
  ] as const) {
    const visits = await linksTo(ana, id)
    t.deepEqual(await visits(), [200, 200])
    const result = await withEnd(ana, id, expire)
    t.like(result, { ok: true, changed: false, id })
    t.is(result.expires_at === null, expire === null)
    t.deepEqual(await visits(), [404, 404], `${id} ${expire}`)
  }
  const visits = await linksTo(ana, ruled.id)
  t.like(await withEnd(ana, ruled.id, null), { ok: true, changed: false })
  t.deepEqual(await visits(), [200, 200], 'what is so already is not written')
})

test('an id that would be too long is refused, and nothing changes', async t => {
  const ana = await api().makeUser()
  const { id } = await madeObject(api(), ana, { key: `${'k'.repeat(1006)}-ex1700000000.tar` })
  t.like(await withEnd(ana, id, '30d'), { ok: false, code: 'INVALID_OBJECT' })
  t.is((await findObject(api().db, objectName(id)!))?.expires_at, null)
  const expiresAt = inDays(9)
  const key = `${'k'.repeat(1006)}-ex${secondsOf(expiresAt)}.tar`
  const expiring = await madeObject(api(), ana, { key, expiresAt })
  t.like(await withEnd(ana, expiring.id, '30d'), { ok: true, changed: true })
})
