import test from 'ava'
import { makeAuthority } from '../../../activities/certificates/authority.ts'
import type { Db } from '../../../db/database.ts'
import {
  authorityBinding,
  clientBinding,
  databasePasswordKey,
  ensureAuthority,
  readClientCertificate,
  storeCertificates,
  trustedAuthorities,
} from '../../../db/databases/authorities.ts'
import type { DatabaseRow } from '../../../db/databases/database-rows.ts'
import { seal, sealKeys } from '../../../policy/seal.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const keys = sealKeys('ab'.repeat(32))
const strange = sealKeys('cd'.repeat(32))
const unreadable = { name: 'CodedError', code: 'READ_FAILED' }

let made = 0
const privateKeys = new Map<string, string>()
const make = async (now?: Date) => {
  made++
  const authority = await makeAuthority(now)
  privateKeys.set(authority.certificate, authority.privateKey)
  return authority
}
const dayMs = 86_400_000

test.serial('callers who come first together get the one authority that is stored', async t => {
  const { db } = await database
  const all = await Promise.all(Array.from({ length: 10 }, () => ensureAuthority(db, keys, make)))
  t.is(new Set(all.map(one => JSON.stringify(one))).size, 1)
  t.is(all[0]!.privateKey, privateKeys.get(all[0]!.certificate)!, 'the key of this certificate')
  t.deepEqual(all[0]!.trusted, [all[0]!.certificate])
  const before = made
  t.deepEqual(await ensureAuthority(db, keys, make), all[0])
  t.is(made, before, 'nothing is created for later callers')
})

test.serial(
  'two thirds into its life another authority is trusted alongside the one that issues, and takes over a month before its end',
  async t => {
    const { db } = await database
    await db('authorities').delete()
    const begin = Date.now()
    const at = (day: number) => new Date(begin + day * dayMs)
    const first = await ensureAuthority(db, keys, make, at(0))
    t.deepEqual(await ensureAuthority(db, keys, make, at(2433)), first)
    const before = made
    const both = await Promise.all(Array.from({ length: 5 }, () => ensureAuthority(db, keys, make, at(2434))))
    const { trusted, ...issuing } = both[0]!
    t.is(new Set(both.map(one => JSON.stringify(one))).size, 1, 'all get the one that is stored')
    t.deepEqual({ ...issuing, trusted: [first.certificate] }, first, 'it goes on to issue')
    const [, second = ''] = trusted
    t.deepEqual(trusted, [first.certificate, second])
    t.deepEqual(await trustedAuthorities(db, at(3000)), trusted)
    t.deepEqual(await ensureAuthority(db, keys, make, at(3600)), both[0]!)
    t.true(made <= before + 5)
    const after = await ensureAuthority(db, keys, make, at(3640))
    t.like(after, { certificate: second, privateKey: privateKeys.get(second)! })
    t.deepEqual(after.trusted, [second, first.certificate], 'until the first one has ended')
    t.deepEqual(await trustedAuthorities(db, at(3660)), [second])
    t.is((await db('authorities').pluck('name')).sort().join(), 'databases,databases-2')
    const third = await ensureAuthority(db, keys, make, at(2434 + 2434))
    t.is(third.trusted.length, 2)
    const { privateKey } = third
    t.false((await db('authorities')).some(row => row.key_sealed.toString('latin1').includes(privateKey)))
  },
)

test.serial('a caller who is overtaken gets what is stored, and leaves it', async t => {
  const { db } = await database
  await db('authorities').delete()
  let first: unknown
  const overtaken = async () => {
    first = await ensureAuthority(db, keys, make)
    return make()
  }
  t.deepEqual(await ensureAuthority(db, keys, overtaken), first)
  t.deepEqual(await ensureAuthority(db, keys, make), first)
})

test.serial('callers who come first together get the one password key that is stored, which is random', async t => {
  const { db } = await database
  const all = await Promise.all(Array.from({ length: 10 }, () => databasePasswordKey(db, keys)))
  t.is(new Set(all.map(key => key.toString('hex'))).size, 1)
  t.is(all[0]!.length, 32)
  t.deepEqual(await databasePasswordKey(db, keys), all[0])
  await db('authorities').where({ name: 'database-passwords' }).delete()
  t.notDeepEqual(await databasePasswordKey(db, keys), all[0])
})

test.serial('keys are stored sealed, each for its own row', async t => {
  const { db } = await database
  const { privateKey } = await ensureAuthority(db, keys, make)
  const passwordKey = await databasePasswordKey(db, keys)
  const stored: { key_sealed: Buffer }[] = await db('authorities')
  const text = stored.map(row => row.key_sealed.toString('latin1')).join()
  for (const secret of [privateKey, passwordKey.toString('hex'), passwordKey.toString('latin1')])
    t.false(text.includes(secret))
  t.is(authorityBinding('x'), 'authorities/x')
  const [{ key_sealed }] = await db('authorities').where({ name: 'databases' })
  await db('authorities').where({ name: 'database-passwords' }).update({ key_sealed })
  await t.throwsAsync(databasePasswordKey(db, keys), unreadable, 'that of another row')
})

test.serial('a key that cannot be decrypted is reported, and never replaced', async t => {
  const { db } = await database
  await db('authorities').delete()
  const [authority, passwordKey] = [await ensureAuthority(db, keys, make), await databasePasswordKey(db, keys)]
  const before = made
  await t.throwsAsync(ensureAuthority(db, strange, make), unreadable)
  const error = await t.throwsAsync(databasePasswordKey(db, strange), unreadable)
  t.is(error?.message, 'The key "database-passwords" of this installation cannot be decrypted.')
  t.is(made, before)
  t.deepEqual(await ensureAuthority(db, keys, make), authority)
  t.deepEqual(await databasePasswordKey(db, keys), passwordKey)
})

async function makeDatabase(db: Db): Promise<string> {
  const make = rows(db)
  await make.databaseHost('h1')
  return (await make.database((await make.user()).id)).database.id
}

const rowOf = (db: Db, id: string): Promise<DatabaseRow> => db('databases').where({ id }).first()

test('the client certificate is sealed for its database, and the server certificate is not', async t => {
  const { db } = await database
  const [id, other] = [await makeDatabase(db), await makeDatabase(db)]
  t.throws(() => readClientCertificate({ id, client_sealed: null }, keys), unreadable)
  const endsAt = new Date('2031-01-02T03:04:05Z')
  await storeCertificates(db, id, keys, {
    ...{ certificate: 'of the server', client: 'pär of the client', endsAt, renewAt: new Date('2030-09-09') },
  })
  const row = await rowOf(db, id)
  t.like(row, {
    certificate: 'of the server',
    certificate_ends_at: endsAt,
    certificate_renew_at: new Date('2030-09-09'),
  })
  t.false(row.client_sealed!.toString('latin1').includes('client'))
  t.is(readClientCertificate(row, keys), 'pär of the client')
  t.like(await rowOf(db, other), { certificate: null, client_sealed: null, certificate_ends_at: null })
  t.is(clientBinding('1'), 'databases/1/client')
  t.throws(() => readClientCertificate({ ...row, id: other }, keys), unreadable, 'moved to another row')
  t.throws(() => readClientCertificate(row, strange), unreadable)
  const moved = seal(keys, 'x', authorityBinding(id))
  t.throws(() => readClientCertificate({ id, client_sealed: moved }, keys), unreadable, 'from another column')
})
