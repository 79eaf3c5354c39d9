import { rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { acmeAuthority } from '../../../activities/certificates/acme/acme.ts'
import { NameRefused } from '../../../activities/edge/port.ts'
import { acmeAccounts } from '../../../db/domains/acme-accounts.ts'
import { ensureRequest, storeCertificate, takeOrder } from '../../../db/domains/certificates.ts'
import { recordLook } from '../../../db/domains/domain-looks.ts'
import { assignDomain, findDomain, unassignDomain } from '../../../db/domains/domains.ts'
import { edgeSnapshot, edgesBehind, isAnyEdgeLive, recordEdge, transactionNumber } from '../../../db/domains/edges.ts'
import type { ServedCertificate } from '../../../db/domains/served-certificates.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { DomainRounds } from '../../../workers/loops/domain-rounds.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { handshake, type Issuer, testIssuer } from '../../kit/servers/https.ts'
import { ask } from '../../kit/servers/origin.ts'
import { startOlderProxy, startProxy, type TestProxy } from '../../kit/servers/proxy.ts'

const database = testDatabase()
const keys = sealKeys('ab'.repeat(32))
const proved = { txtSeen: true, cnameSeen: false, points: true, delegated: false, problem: null }
const answers = { 'acme-challenge': async () => 'thumbprint', 'berth-check': async () => 'proof' }

let proxy: TestProxy
let issuer: Issuer
test.before(async () => {
  proxy = await startProxy({ EDGE_TLS: 'local' })
  issuer = await testIssuer()
})
test.after.always(() => proxy?.stop())

async function scene(t: ExecutionContext, { edge } = proxy) {
  const { db } = await database
  t.teardown(async () => {
    await db('domains').delete()
  })
  const make = rows(db)
  await make.host('h1', { memoryMb: 65_536 })
  const ana = await make.user()
  const apps = [await make.app(ana.id, { memoryMb: 256 }), await make.app(ana.id, { memoryMb: 256 })]
  const rounds = new DomainRounds({
    db,
    keys,
    edge,
    appsDomain: 'apps.localhost',
    answers,
    now: () => clock,
    ownCertificates: async () => own.certificates,
  })
  let clock = 0
  /** Of the operator's files. */
  const own: { certificates: ServedCertificate[] | null } = { certificates: [] }
  return {
    ...{ db, rounds, own, apps: apps.map(({ app }) => app) },
    later: (seconds: number) => {
      clock += seconds * 1000
    },
    async claim(hostname: string, app = apps[0]!.app) {
      await assignDomain(db, { app: { id: app.id, owner_id: ana.id }, hostname, plans: defaultPlans })
      await recordLook(db, (await findDomain(db, hostname))!, proved)
    },
    async certify(hostname: string) {
      const { chain, key } = await issuer.issue(hostname)
      const order = (await takeOrder(db, { hostname, registered: hostname, authority: 'a' }))!
      await ensureRequest(db, keys, order.id, async () => ({ privateKey: key, csr: Buffer.from('csr') }))
      const dates = { notBefore: new Date(), notAfter: new Date(Date.now() + 1e9), renewAt: new Date(Date.now() + 1e8) }
      await storeCertificate(db, order.id, { chain, issuer: 'Test', serial: order.id, ...dates })
      return order.id
    },
    names: async () => (await edge.listNames()).map(({ host }) => host),
    certificates: async () => (await edge.listCertificates()).map(({ host, version }) => `${host} ${version}`),
  }
}

test.serial(
  'a name is at the proxy with its members as soon as it is proved, and its certificate as soon as there is one',
  async t => {
    const { rounds, apps, claim, certify, names, certificates, db } = await scene(t)
    await claim('a.shop.dev')
    await rounds.round()
    t.deepEqual([await names(), await certificates()], [['a.shop.dev'], []])
    await claim('a.shop.dev', apps[1])
    const id = await certify('a.shop.dev')
    await rounds.round()
    t.deepEqual([await names(), await certificates()], [['a.shop.dev'], [`a.shop.dev ${id}`]])
    const [name] = await proxy.edge.listNames()
    t.deepEqual(name!.members, apps.map(({ id, subdomain }) => `${subdomain}.apps.localhost@${id}`).sort())
    const { certificate } = await handshake(proxy.tlsPort, 'a.shop.dev', { ca: issuer.root })
    t.is(certificate.subject.CN, 'a.shop.dev')
    const next = await certify('a.shop.dev')
    await rounds.round()
    t.deepEqual(await certificates(), [`a.shop.dev ${next}`])
    for (const { id } of apps) await unassignDomain(db, id)
    await rounds.round()
    t.deepEqual([await names(), await certificates()], [[], []])
  },
)

test.serial('a proxy of before, which refuses marks, gets each change of members without them', async t => {
  const older = await startOlderProxy({ 'names.lua': [[/\[!\?\]\?\)"\$/g, ')"$$']] })
  t.teardown(older.stop)
  await t.throwsAsync(older.edge.setName({ host: 'marked.shop.dev', members: ['x.apps.localhost!'] }), {
    instanceOf: NameRefused,
  })
  const { db, rounds, apps, claim, later } = await scene(t, older)
  const health = { status: 'unhealthy', since: '2030-01-01T00:00:00.000Z', reason: '/ready answered 503' }
  const [first, second] = apps.map(({ id, subdomain }) => ({ id, member: `${subdomain}.apps.localhost@${id}` }))
  const members = async () => (await older.edge.listNames(['old.shop.dev']))[0]?.members
  for (const app of apps) await claim('old.shop.dev', app)
  await db('apps').where({ id: first!.id }).update({ status: 'running', health_path: '/ready' })
  await db('apps').where({ id: first!.id }).update({ health })
  t.deepEqual((await rounds.round()).refused, [])
  t.deepEqual(await members(), [first!.member, second!.member].sort())
  await unassignDomain(db, second!.id)
  t.deepEqual((await rounds.round()).refused, [])
  t.deepEqual(await members(), [first!.member])
  // Once it is replaced, the next comparison of all brings the mark.
  const next = new DomainRounds({ db, keys, edge: proxy.edge, appsDomain: 'apps.localhost', answers })
  await next.round()
  t.deepEqual((await proxy.edge.listNames(['old.shop.dev']))[0]?.members, [`${first!.member}!`])
  later(10)
  t.deepEqual((await rounds.round()).refused, [])
})

test.serial('a proxy that knows only the mark of unhealthy members gets that one', async t => {
  const older = await startOlderProxy({ 'names.lua': [[/\[!\?\]\?\)"\$/g, '!?)"$$']] })
  t.teardown(older.stop)
  const { db, rounds, apps, claim } = await scene(t, older)
  const [ill, fresh] = apps.map(({ id, subdomain }) => ({ id, member: `${subdomain}.apps.localhost@${id}` }))
  for (const app of apps) await claim('mixed.shop.dev', app)
  for (const { id } of apps) await db('apps').where({ id }).update({ status: 'running', health_path: '/ready' })
  const health = { status: 'unhealthy', since: '2030-01-01T00:00:00.000Z', reason: '/ready answered 503' }
  await db('apps').where({ id: ill!.id }).update({ health })
  t.deepEqual((await rounds.round()).refused, [])
  const members = (await older.edge.listNames(['mixed.shop.dev']))[0]?.members
  t.deepEqual([...members!].sort(), [`${ill!.member}!`, fresh!.member].sort())
})

for (const [what, late] of [
  ['its members', 'setName'],
  ['that it is deleted', 'setName'],
  ['that it is back', 'removeName'],
] as const)
  test.serial(`a keeper that writes a name late leaves at the proxy what was acknowledged: ${what}`, async t => {
    const { db, rounds, apps, claim } = await scene(t)
    const host = 'late.shop.dev'
    const back = what === 'that it is back'
    let happens = async () => {}
    const suspended =
      (write: (...args: never[]) => Promise<void>) =>
      async (...args: never[]) => {
        const before = happens
        happens = async () => {}
        await before()
        await write(...args)
      }
    const edge = { ...proxy.edge, [late]: suspended(proxy.edge[late] as never) }
    const slow = new DomainRounds({ db, keys, edge, appsDomain: 'apps.localhost', answers })
    await claim(host)
    if (back) {
      await rounds.round()
      await unassignDomain(db, apps[0]!.id)
    }
    happens = async () => {
      if (what === 'that it is deleted') await unassignDomain(db, apps[0]!.id)
      else await claim(host, apps[1])
      await rounds.round()
    }
    await slow.round()
    const wanted = (back ? [apps[1]!] : apps).map(({ id, subdomain }) => `${subdomain}.apps.localhost@${id}`).sort()
    const members = (await proxy.edge.listNames([host]))[0]?.members
    t.deepEqual(members, what === 'that it is deleted' ? undefined : wanted)
  })

test.serial('a keeper that writes a certificate late leaves the current one at the proxy', async t => {
  const { db, rounds, claim, certify, certificates } = await scene(t)
  const host = 'late.shop.dev'
  let happens = async () => {}
  const edge = Object.assign(Object.create(proxy.edge), {
    async setCertificate(...args: Parameters<typeof proxy.edge.setCertificate>) {
      const before = happens
      happens = async () => {}
      await before()
      await proxy.edge.setCertificate(...args)
    },
  })
  const slow = new DomainRounds({ db, keys, edge, appsDomain: 'apps.localhost', answers })
  await claim(host)
  await certify(host)
  let renewed = ''
  happens = async () => {
    renewed = await certify(host)
    await rounds.round()
    t.deepEqual(await certificates(), [`${host} ${renewed}`])
  }
  await slow.round()
  t.not(renewed, '')
  t.deepEqual(await certificates(), [`${host} ${renewed}`])
})

test.serial(
  'a route that was changed at the proxy by others is repaired within 10 s, also without a change in Postgres',
  async t => {
    const { rounds, claim, certify, names, certificates, later } = await scene(t)
    await claim('b.shop.dev')
    const id = await certify('b.shop.dev')
    await rounds.round()
    await proxy.edge.syncNames([{ host: 'stray.shop.dev', members: ['x.apps.localhost'] }])
    await proxy.edge.removeCertificate('b.shop.dev')
    later(9)
    // What is not in Postgres: the others may be looked at again for a transaction elsewhere that has not ended.
    await rounds.round()
    t.true((await names()).includes('stray.shop.dev'))
    later(1)
    await rounds.round()
    t.deepEqual([await names(), await certificates()], [['b.shop.dev'], [`b.shop.dev ${id}`]])
  },
)

test.serial('a proxy that comes back with empty tables gets all names and certificates in the next round', async t => {
  const { rounds, claim, certify, names, certificates } = await scene(t)
  await claim('kept.shop.dev')
  const id = await certify('kept.shop.dev')
  await rounds.round()
  await proxy.kill('SIGKILL')
  await rm(dirname(proxy.config.edge.routesFile), { recursive: true })
  await proxy.start()
  t.deepEqual(await names(), [])
  await rounds.round()
  t.deepEqual([await names(), await certificates()], [['kept.shop.dev'], [`kept.shop.dev ${id}`]])
})

test.serial('a certificate that the proxy refuses is reported, delays no other, and is tried again', async t => {
  const { rounds, db, claim, certify, certificates, later } = await scene(t)
  await claim('good.shop.dev')
  await claim('bad.shop.dev', (await scene(t)).apps[0])
  const bad = await certify('bad.shop.dev')
  const { chain } = await issuer.issue('other.shop.dev')
  await db('certificates').where({ id: bad }).update({ chain })
  const good = await certify('good.shop.dev').catch(() => null)
  const { refused } = await rounds.round()
  t.deepEqual(
    refused.map(({ host }) => host),
    ['bad.shop.dev'],
  )
  t.false(refused[0]!.why.includes('PRIVATE KEY'))
  t.true((await certificates()).includes(`good.shop.dev ${good}`))
  later(1)
  t.is((await rounds.round()).refused.length, 1)
  const mended = await certify('bad.shop.dev')
  t.deepEqual((await rounds.round()).refused, [])
  t.true((await certificates()).includes(`bad.shop.dev ${mended}`))
})

test.serial('a key that cannot be decrypted is refused alone', async t => {
  const { rounds, db, claim, certify, certificates } = await scene(t)
  await claim('closed.shop.dev')
  await claim('open.shop.dev', (await scene(t)).apps[0])
  const closed = await certify('closed.shop.dev')
  await db('certificates')
    .where({ id: closed })
    .update({ key_sealed: Buffer.from('of another installation') })
  const open = await certify('open.shop.dev')
  const { refused } = await rounds.round()
  t.deepEqual(refused, [
    { host: 'closed.shop.dev', why: 'The key of the certificate of closed.shop.dev cannot be decrypted.' },
  ])
  t.true((await certificates()).includes(`open.shop.dev ${open}`))
})

test.serial(
  'an account at the authority whose key cannot be decrypted delays no name, no certificate and no probe',
  async t => {
    const { db, claim, certify, names, certificates } = await scene(t)
    const directoryUrl = 'https://authority.test/directory'
    const accounts = acmeAccounts(db, sealKeys('cd'.repeat(32)))
    await accounts.keep(directoryUrl, { privateKey: 'of another installation', url: null })
    const settings = { directoryUrl, email: null, externalAccount: null }
    const { thumbprint } = acmeAuthority({ settings, ca: null, accounts: acmeAccounts(db, keys) })
    const sources = { ...answers, 'acme-challenge': thumbprint }
    const rounds = new DomainRounds({ db, keys, edge: proxy.edge, appsDomain: 'apps.localhost', answers: sources })
    await claim('goes-on.shop.dev')
    const id = await certify('goes-on.shop.dev')
    const unanswered = [
      { host: 'acme-challenge', why: `The key of the account at ${directoryUrl} cannot be decrypted.` },
    ]
    t.like(await rounds.round(), { refused: [], unanswered })
    t.deepEqual([await names(), await certificates()], [['goes-on.shop.dev'], [`goes-on.shop.dev ${id}`]])
    const probe = await ask(proxy.port, 'goes-on.shop.dev', { path: '/.well-known/berth-check/nonce' })
    t.is(probe.body.trim(), 'nonce.proof')
    t.deepEqual((await rounds.round()).unanswered, unanswered, 'reported until it can be read')
    await db('acme_accounts').delete()
    t.deepEqual((await rounds.round()).unanswered, [])
  },
)

test.serial('while the operator’s files cannot be read, nothing that may be theirs is taken away', async t => {
  const { rounds, own, claim, certify, certificates, later } = await scene(t)
  const { chain, key: privateKey } = await issuer.issue('own.berth.dev')
  own.certificates = [{ hostname: 'own.berth.dev', version: 'own', chain, privateKey }]
  await rounds.round()
  t.true((await certificates()).includes('own.berth.dev own'))
  own.certificates = null
  await claim('c.shop.dev')
  const id = await certify('c.shop.dev')
  later(10)
  await rounds.round()
  t.deepEqual((await certificates()).toSorted(), [`c.shop.dev ${id}`, 'own.berth.dev own'])
  own.certificates = []
  later(10)
  await rounds.round()
  t.deepEqual(await certificates(), [`c.shop.dev ${id}`])
})

test.serial('a change counts as applied once every live proxy has recorded a snapshot that shows it', async t => {
  const { db } = await scene(t)
  t.teardown(async () => {
    await db('edges').delete()
  })
  t.false(await isAnyEdgeLive(db))
  const before = await edgeSnapshot(db)
  const change = await db.transaction(trx => transactionNumber(trx))
  t.deepEqual(await edgesBehind(db, change), [], 'nobody lives')
  await recordEdge(db, 'one', before)
  await recordEdge(db, 'two', await edgeSnapshot(db))
  t.true(await isAnyEdgeLive(db))
  t.deepEqual(await edgesBehind(db, change), ['one'])
  await recordEdge(db, 'two', before)
  t.deepEqual(await edgesBehind(db, change), ['one'], 'a slower keeper of the same proxy takes nothing back')
  await recordEdge(db, 'one', await edgeSnapshot(db))
  t.deepEqual(await edgesBehind(db, change), [])
  const next = await db.transaction(trx => transactionNumber(trx))
  await db('edges')
    .where({ id: 'one' })
    .update({ seen_at: db.raw(`now() - interval '26 s'`) })
  t.deepEqual(await edgesBehind(db, next), ['two'], 'a proxy that was cut off is not waited for')
})

test.serial('a transaction that commits late is not taken for applied', async t => {
  const { db } = await scene(t)
  t.teardown(async () => {
    await db('edges').delete()
  })
  const slow = await db.transaction()
  const change = await transactionNumber(slow)
  await recordEdge(db, 'one', await edgeSnapshot(db))
  await slow.commit()
  t.deepEqual(await edgesBehind(db, change), ['one'], 'the keeper could not see it')
})
