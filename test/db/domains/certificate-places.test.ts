import test from 'ava'
import type { Db } from '../../../db/database.ts'
import { takeOrder } from '../../../db/domains/certificates.ts'
import { type OrderLimits, orderLimits } from '../../../policy/domains/order-limits.ts'
import { newId } from '../../../policy/ids.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const [authority, registered] = ['https://ca.test', 'shop.dev']
const dayMs = 86_400_000
/** Of 90 days, so many were lived. */
const lived = (days: number) => ({
  not_before: new Date(Date.now() - days * dayMs),
  not_after: new Date(Date.now() + (90 - days) * dayMs),
})

async function emptied(): Promise<Db> {
  const { db } = await database
  await db('certificate_orders').delete()
  await db('domains').delete()
  return db
}

/** Adds a name, with a certificate of `authority` where its validity is given. */
async function name(
  db: Db,
  hostname: string,
  more: { owner_id?: string; certificate?: ReturnType<typeof lived> } = {},
) {
  const { owner_id = null, certificate } = more
  await db('domains').insert({ hostname, owner_id, proved_at: new Date() })
  const parts = { chain: 'PEM', key_sealed: Buffer.from('key'), state: 'current' }
  if (certificate) await db('certificates').insert({ id: newId(), hostname, authority, ...parts, ...certificate })
  return { hostname, registered }
}

const taken = (db: Db, count: number, place: object) =>
  db('certificate_orders').insert(Array.from({ length: count }, () => ({ registered: 'others.dev', ...place })))

async function isOrdered(
  db: Db,
  wanted: { hostname: string; registered: string },
  limits?: OrderLimits,
  by = authority,
) {
  return (await takeOrder(db, { ...wanted, authority: by }, limits)) !== null
}

test.serial('renewals take no place of their registered domain, which first orders have used up', async t => {
  const db = await emptied()
  await taken(db, orderLimits.perDomain - 1, { registered })
  t.true(await isOrdered(db, await name(db, 'last.shop.dev')))
  t.false(await isOrdered(db, await name(db, 'late.shop.dev')))
  for (const hostname of ['a.shop.dev', 'b.shop.dev'])
    t.true(await isOrdered(db, await name(db, hostname, { certificate: lived(60) })))
  await db.raw('delete from certificate_orders where seq = (select min(seq) from certificate_orders)')
  t.is((await db('certificate_orders').where({ renewal: true })).length, 2)
  t.true(await isOrdered(db, { hostname: 'late.shop.dev', registered }), 'nor did these renewals take one')
})

test.serial('a certificate of another authority is no renewal', async t => {
  const db = await emptied()
  await taken(db, orderLimits.perDomain, { registered })
  const moved = await name(db, 'moved.shop.dev', { certificate: lived(60) })
  t.false(await isOrdered(db, moved, orderLimits, 'https://other.test'))
})

test.serial('the platform’s own authority has no limits', async t => {
  const db = await emptied()
  await taken(db, orderLimits.perWindow, { registered })
  t.true(await isOrdered(db, await name(db, 'own.shop.dev'), orderLimits, 'local'))
  t.is((await db('certificate_orders')).length, orderLimits.perWindow)
})

test.serial(
  'a name without a certificate leaves places to renewals, and these to certificates that end soon',
  async t => {
    const db = await emptied()
    const [first, due, ending] = [
      await name(db, 'first.shop.dev'),
      await name(db, 'due.shop.dev', { certificate: lived(60) }),
      await name(db, 'ending.shop.dev', { certificate: lived(85) }),
    ]
    const got: string[] = []
    for (const share of [0.6, 0.8, 1]) {
      await db('certificate_orders').delete()
      await taken(db, orderLimits.perWindow * share, {})
      for (const wanted of [first, due, ending])
        if (await isOrdered(db, wanted)) got.push(`${share} ${wanted.hostname}`)
      await db('certificates').where({ state: 'ordered' }).delete()
    }
    t.deepEqual(got, ['0.6 due.shop.dev', '0.6 ending.shop.dev', '0.8 ending.shop.dev'])
  },
)

test.serial(
  'an account takes a quarter of a window, and its certificates that expire soon are still renewed',
  async t => {
    const db = await emptied()
    const [ana, ben] = [await rows(db).user('standard-4'), await rows(db).user('standard-4')]
    const of = (owner_id: string, hostname: string, certificate?: ReturnType<typeof lived>) =>
      name(db, hostname, { owner_id, ...(certificate && { certificate }) })
    await taken(db, 61, { owner_id: ana.id })
    t.true(await isOrdered(db, await of(ana.id, 'a1.shop.dev')))
    t.false(await isOrdered(db, await of(ana.id, 'a2.shop.dev')))
    t.false(await isOrdered(db, await of(ana.id, 'a3.shop.dev', lived(60))))
    t.true(await isOrdered(db, await of(ana.id, 'a4.shop.dev', lived(85))))
    t.true(await isOrdered(db, await of(ben.id, 'b1.shop.dev')))
  },
)
