import test from 'ava'
import { pino } from 'pino'
import { recordLook } from '../../../db/domains/domain-looks.ts'
import type { CertificateRow } from '../../../db/domains/domain-rows.ts'
import { assignDomain, findDomain, lookNow, unassignDomain } from '../../../db/domains/domains.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { domainRecordKey, proofRecords } from '../../../policy/domains/records.ts'
import { domainRelay } from '../../../workers/loops/overdue-relay.ts'
import { temporalDomains } from '../../../workers/temporal/domains.ts'
import { domainId } from '../../../workflows/ids.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { keepRun } from '../../kit/platform/histories.ts'
import { TestDns } from '../../kit/servers/dns.ts'
import { laneKit } from '../lane-kit.ts'

const masterKey = '5d'.repeat(32)
const dns = TestDns.start()
const kit = laneKit(
  {},
  dns.then(({ address }) => ({ EDGE_TLS: 'local', DNS_SERVERS: address, BERTH_MASTER_KEY: masterKey })),
)
test.serial.after.always('stop the name server', async () => (await dns).stop())

let names = 0

/** An application with a domain of its own, and the records of its account in DNS as the test sets them. */
async function claimed() {
  const { db, client, config, edge, make } = await kit
  const user = await make.user()
  const { app } = await make.app(user.id)
  const hostname = `n${++names}.shop.dev`
  await assignDomain(db, { app: { id: app.id, owner_id: user.id }, hostname, plans: defaultPlans })
  const domains = temporalDomains(client, config)
  const { txt, cname } = proofRecords(domainRecordKey(masterKey), { accountId: user.id, hostname }, config.appsDomain)
  const run = client.workflow.getHandle(domainId(hostname))
  const wake = async () => {
    await lookNow(db, hostname)
    await domains.wake(hostname)
  }
  const certificates = (): Promise<CertificateRow[]> => db('certificates').where({ hostname })
  const certificateAtEdge = async () => (await edge.listCertificates()).find(({ host }) => host === hostname)?.version
  const nameAtEdge = async () => (await edge.listNames()).find(({ host }) => host === hostname)
  const served = () =>
    comesTrue(async () => (await certificates()).some(({ state, served_at }) => state === 'current' && served_at))
  return {
    ...{ db, client, app, hostname, domains, run, wake, certificates, certificateAtEdge, nameAtEdge, served },
    member: `${app.subdomain}.${config.appsDomain}@${app.id}`,
    state: async () => (await run.describe()).status.name,
    row: async () => (await findDomain(db, hostname))!,
    prove: async () => (await dns).set(txt.name, 'TXT', txt.value),
    point: async () => (await dns).set(cname.name, 'CNAME', cname.value),
    unprove: async () => {
      ;(await dns).set(txt.name, 'TXT')
      ;(await dns).set(cname.name, 'CNAME')
    },
    misbehave: async (how: 'SERVFAIL' | null) => (await dns).misbehave(txt.name, how),
  }
}

test('a name waits for its record, is served with a certificate once it is seen, and ends when it is released', async t => {
  const it = await claimed()
  await it.wake()
  await comesTrue(async () => (await it.row()).code === 'recordMissing')
  t.is(await it.state(), 'RUNNING')
  t.is(await it.nameAtEdge(), undefined)
  const { message, look_at } = await it.row()
  t.true(message!.includes(`_berth.${it.hostname}`), 'says what to set')
  t.true(look_at > new Date(), 'the row says when it is looked for again')

  await it.prove()
  await it.point()
  await it.wake()
  await it.served()
  const [certificate] = await it.certificates()
  t.is(await it.certificateAtEdge(), certificate!.id)
  t.deepEqual((await it.nameAtEdge())!.members, [it.member])
  t.like(await it.row(), { code: null, message: null, orders_failed: 0, points: true })
  t.is((await it.certificates()).length, 1, 'one order, one certificate')

  await unassignDomain(it.db, it.app.id)
  await it.domains.wake(it.hostname)
  await it.run.result()
  await comesTrue(async () => (await it.certificateAtEdge()) === undefined && !(await it.nameAtEdge()))
  await keepRun(it.client, 'domain', domainId(it.hostname))
})

test('name servers that fail are reported, and take nothing that was seen', async t => {
  const it = await claimed()
  await it.prove()
  await it.wake()
  await it.served()
  await it.misbehave('SERVFAIL')
  const { looks } = await it.row()
  await it.wake()
  await comesTrue(
    async () => (await it.row()).looked_at! > new Date(Date.now() - 5000) && (await it.row()).looks !== looks,
  )
  t.is((await it.row()).unproved_since, null)
  await it.misbehave(null)
  await it.unprove()
  await it.wake()
  await comesTrue(async () => (await it.row()).unproved_since !== null)
  t.truthy(await it.certificateAtEdge(), 'it is served on')
})

test('a certificate is renewed when its time has come, without a moment without one', async t => {
  const it = await claimed()
  await it.prove()
  await it.wake()
  await it.served()
  const first = await it.certificateAtEdge()
  const seen = new Set<string | undefined>()
  const watching = setInterval(() => void it.certificateAtEdge().then(version => seen.add(version)), 2)
  await it.db('certificates').where({ hostname: it.hostname }).update({ renew_at: new Date() })
  await it.wake()
  await comesTrue(async () => (await it.certificateAtEdge()) !== first)
  clearInterval(watching)
  await it.served()
  t.false(seen.has(undefined))
  const [current, ...others] = await it.certificates()
  t.deepEqual([await it.certificateAtEdge(), others], [current!.id, []])
})

test('twenty wake-ups order one certificate', async t => {
  const it = await claimed()
  await it.prove()
  await Promise.all(Array.from({ length: 20 }, () => it.wake()))
  await it.served()
  const { rows } = await it.db.raw('select count(*)::int as n from certificate_orders where registered = ?', [
    'shop.dev',
  ])
  t.is((await it.certificates()).length, 1)
  t.true(rows[0].n <= names + 1, 'renewals of other tests aside, an order for each name')
})

test('a name whose run was lost goes on from its row', async t => {
  const it = await claimed()
  await it.wake()
  await comesTrue(async () => (await it.row()).looks > 0)
  await it.run.terminate('as an emptied Temporal does')
  await it.prove()
  const relay = domainRelay({ ...it, log: pino({ level: 'silent' }) })
  await it
    .db('domains')
    .where({ hostname: it.hostname })
    .update({ look_at: new Date(Date.now() - 61_000) })
  await relay.round()
  await it.served()
  t.is((await it.row()).proved_at !== null, true)
})

test('a name that nobody proves ends with its time', async t => {
  const it = await claimed()
  const claim = { ...(await it.row()), created_at: new Date(Date.now() - 73 * 3_600_000) }
  await it.db('domains').where({ hostname: it.hostname }).update({ created_at: claim.created_at })
  await it.wake()
  await it.run.result()
  t.is(await findDomain(it.db, it.hostname), undefined)
  t.is(
    await recordLook(it.db, claim, {
      txtSeen: true,
      cnameSeen: null,
      points: null,
      delegated: null,
      problem: null,
    }),
    null,
  )
})
