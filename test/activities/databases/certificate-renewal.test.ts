import { createPrivateKey, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect, createServer } from 'node:tls'
import test, { type ExecutionContext } from 'ava'
import { makeAuthority } from '../../../activities/certificates/authority.ts'
import { engineOf } from '../../../activities/databases/engines/select.ts'
import { hostedEngines } from '../../../activities/databases/hosted-engine.ts'
import { databaseVolume } from '../../../activities/databases/names.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { certificateOf } from '../../../api/v2/databases/credentials.ts'
import { ensureAuthority } from '../../../db/databases/authorities.ts'
import { loadDatabase } from '../../../db/databases/databases.ts'
import { readFactsOfDatabase } from '../../../db/operations/database-facts.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { ownFolder } from '../../kit/folders.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const keys = sealKeys('ab'.repeat(32))
const dayMs = 86_400_000
const ownUid = process.getuid?.() ?? 0

/** A database on a host whose clock the test sets, in days from now. */
async function scene(t: ExecutionContext) {
  const { db } = await database
  await db('authorities').delete()
  const make = rows(db)
  await make.databaseHost('h1')
  const { database: row } = await make.database((await make.user()).id)
  const { id, generation } = row
  const volumes = folderVolumes(ownFolder(t))
  await volumes.ensure(databaseVolume({ id, generation }), 16, ownUid)
  const begin = Date.now()
  const at = (day: number) => new Date(begin + day * dayMs)
  const clock = { day: 0 }
  const names = { domain: 'apps.localhost', address: '127.0.0.1', bind: '127.0.0.1' }
  const now = () => at(clock.day)
  const hosts = { db, keys, engine: null as never, volumes, engineOf, now }
  const hosted = hostedEngines({ ...hosts, ...names })
  const facts = async () => ({ ...(await readFactsOfDatabase(db, id))!, uid: ownUid })
  const settings = join(volumes.path(databaseVolume({ id, generation })), 'settings')
  const read = (name: string) => readFileSync(join(settings, name), 'utf8')
  return {
    ...{ db, at, clock, facts, hosted, read },
    row: async () => (await loadDatabase(db, id))!,
    settle: async (use: 'serve' | 'start' | 'renew', moved: Partial<typeof names> = {}) =>
      hostedEngines({ ...hosts, ...names, ...moved }).settle(await facts(), use),
    /** What its owner reads, in PEM blocks. */
    async owned(): Promise<string[]> {
      const own = await certificateOf((await loadDatabase(db, id))!, { db, config: { sealKeys: keys } as never }, now())
      return Buffer.from(own, 'base64')
        .toString()
        .split(/(?<=-----END [A-Z ]+-----\n)/)
        .filter(Boolean)
    },
    /** Connects to a server with the files that an engine reads, as a client that trusts these and shows this; resolves to what it says. */
    async verifies(trusted: readonly string[], shown: readonly string[] = []): Promise<string> {
      const own = { cert: read('server.crt'), key: read('server.key'), ca: read('ca.crt') }
      const server = createServer({ ...own, requestCert: true, rejectUnauthorized: false }, socket => {
        socket.end(shown.length === 0 || socket.authorized ? 'verified' : 'the client is not trusted')
      })
      server.on('tlsClientError', () => {})
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      const [key, cert] = shown
      const options = { host: '127.0.0.1', port, servername: hosted.hostnameOf(row as never), ca: [...trusted] }
      const said = await new Promise<string>(done => {
        const socket = connect({ ...options, ...(key && { key, cert }) })
        socket.on('data', data => done(String(data)))
        socket.on('error', error => done((error as NodeJS.ErrnoException).code ?? error.message))
      })
      server.close()
      return said
    },
  }
}

test.serial('a start renews certificates that are due, and serves with the present ones when that fails', async t => {
  const { db, clock, settle, read, row, at, owned } = await scene(t)
  await settle('start')
  const first = read('server.crt')
  t.like(await row(), { certificate: first, renewal_failures: 0 })
  t.true(Math.abs((await row()).certificate_renew_at!.getTime() - at(397 * (2 / 3)).getTime()) < dayMs / 4)
  const [, client] = await owned()
  clock.day = 264
  await settle('start')
  t.is(read('server.crt'), first, 'not before it is due')
  clock.day = 265
  await settle('serve')
  t.is(read('server.crt'), first, 'an engine that runs would not serve it')
  const own = { name: 'databases' }
  const { key_sealed: sealed } = await db('authorities').where(own).first()
  await db('authorities')
    .where(own)
    .update({ key_sealed: Buffer.from('01', 'hex') })
  await settle('start')
  t.is(read('server.crt'), first)
  clock.day = 400
  await t.throwsAsync(settle('start'), { message: /cannot be decrypted/ }, 'nothing serves with one that has ended')
  await db('authorities').where(own).update({ key_sealed: sealed })
  await db('databases').update({ renewal_failures: 3 })
  clock.day = 300
  await settle('start')
  t.not(read('server.crt'), first)
  t.like(await row(), { certificate: read('server.crt'), renewal_failures: 0 })
  t.true((await row()).certificate_renew_at! > at(560))
  const [key, other, ...authorities] = await owned()
  t.not(other, client)
  t.true(new X509Certificate(client!).validTo > '' && new Date(new X509Certificate(client!).validTo) > at(395))
  t.true(new X509Certificate(other!).checkPrivateKey(createPrivateKey(key!)))
  t.is(authorities.length, 1)
})

test.serial('a renewal counts once the engine serves it: until then the former certificate may be due', async t => {
  const { db, clock, settle, hosted, facts, read, row, at } = await scene(t)
  await settle('start')
  const { certificate_renew_at: due } = await row()
  await db('databases').update({ renewal_failures: 2 })
  clock.day = 300
  await settle('renew')
  t.like(await row(), { certificate: read('server.crt'), certificate_renew_at: due, renewal_failures: 2 })
  await hosted.certificateServed(await facts())
  t.is((await row()).renewal_failures, 0)
  t.true(Math.abs((await row()).certificate_renew_at!.getTime() - at(300 + 397 * (2 / 3)).getTime()) < dayMs)
})

test.serial('a renewal from an authority that ends soon is due when a start would be', async t => {
  const { db, at, clock, settle, hosted, facts, row } = await scene(t)
  await ensureAuthority(db, keys, makeAuthority, at(-3550))
  clock.day = 0
  await settle('start')
  const due = (await row()).certificate_renew_at!
  t.true(due > at(1))
  await settle('renew')
  await hosted.certificateServed(await facts())
  t.true(Math.abs((await row()).certificate_renew_at!.getTime() - due.getTime()) < dayMs / 4)
})

test.serial('clients verify before, during and after the change of the authority', async t => {
  const { db, at, clock, settle, owned, verifies, row, read } = await scene(t)
  // The first one is in its last 20 days now, and the second one has been there for three years.
  const first = await ensureAuthority(db, keys, makeAuthority, at(-3630))
  const both = await ensureAuthority(db, keys, makeAuthority, at(-1190))
  const [, second = ''] = both.trusted
  clock.day = -100
  await settle('start')
  const before = await owned()
  t.deepEqual(before.slice(2), [first.certificate, second], 'the one that issues is the first of the two')
  t.is(await verifies([first.certificate]), 'verified', 'a client that has never read the second one')
  t.is(await verifies(before.slice(2), before), 'verified')
  t.not(await verifies([second]), 'verified')
  t.true(Math.abs((await row()).certificate_renew_at!.getTime() - at(-20).getTime()) < dayMs / 2)

  clock.day = 0
  await settle('start')
  const after = await owned()
  t.deepEqual(after.slice(2), [second, first.certificate])
  for (const client of [before, after]) t.is(await verifies(client.slice(2), client), 'verified')
  t.is(await verifies([second], before), 'verified', 'its own certificate is of the first one')
  t.not(await verifies([first.certificate]), 'verified')
  t.is(read('ca.crt'), `${second}${first.certificate}`)

  clock.day = 30
  t.deepEqual((await owned()).slice(2), [second], 'the first one has ended')
})

test.serial('a start issues certificates anew once the name or the address of the database is another one', async t => {
  const { settle, read, row, facts } = await scene(t)
  await settle('start')
  const { id } = await facts()
  for (const moved of [{ domain: 'other.localhost' }, { domain: 'other.localhost', address: '192.0.2.7' }]) {
    const before = read('server.crt')
    await settle('serve', moved)
    t.is(read('server.crt'), before, 'an engine that runs would not serve it')
    await settle('start', moved)
    const served = new X509Certificate(read('server.crt'))
    t.truthy(served.checkHost(`db-${id}.other.localhost`))
    t.truthy(served.checkIP(moved.address ?? '127.0.0.1'))
    t.is((await row()).certificate, read('server.crt'))
    await settle('start', moved)
    t.is(read('server.crt'), served.toString(), 'once')
  }
})
