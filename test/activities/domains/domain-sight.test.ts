import test from 'ava'
import type { Dns } from '../../../activities/dns/port.ts'
import { hostReader } from '../../../activities/dns/probe.ts'
import { resolverDns } from '../../../activities/dns/resolver.ts'
import { domainSight } from '../../../activities/domains/domain-sight.ts'
import type { CertificateRow, DomainRow } from '../../../db/domains/domain-rows.ts'
import { delegationOf, proofRecords } from '../../../policy/domains/records.ts'
import { TestDns } from '../../kit/servers/dns.ts'

const key = Buffer.alloc(32, 1)
const [appsDomain, acmeDnsDomain] = ['apps.berth.test', 'acme.berth.test']
const answer = 'answer-of-its-order'
const byBoth = { challenge: 'http-01', dns_value: answer } as CertificateRow
const byDns = { challenge: 'dns-01', dns_value: answer } as CertificateRow

let server: TestDns
test.before(async () => {
  server = await TestDns.start()
})
test.after.always(() => server?.stop())

/** A name that has a row, what its owner can set in DNS, and what a look at it says. */
function scene(hostname: string, owner_id: string | null) {
  const dns = resolverDns([server.address])
  const sight = domainSight({
    ...{ dns, key, appsDomain, acmeDnsDomain, edgeProof: 'proof' },
    ...{ ownDomains: ['berth.test', appsDomain], publicAddresses: [] },
    read: hostReader({ dns, publicAddresses: [], port: 80 }),
  })
  const row = { hostname, owner_id, points: false, delegated: false } as DomainRow
  const { name, value } = delegationOf(key, row, acmeDnsDomain)
  return {
    challenge: name,
    delegate: () => server.set(name, 'CNAME', value),
    prove: () => {
      const { txt } = proofRecords(key, { accountId: owner_id!, hostname }, appsDomain)
      server.set(txt.name, 'TXT', txt.value)
    },
    point: () => server.set(hostname, 'CNAME', `mine.${appsDomain}`),
    answer: () => server.set(value, 'TXT', answer),
    look: (ordered?: CertificateRow, before: Partial<DomainRow> = {}) => sight.look({ ...row, ...before }, ordered),
    async code(ordered?: CertificateRow, before: Partial<DomainRow> = {}) {
      return (await sight.look({ ...row, ...before }, ordered)).look.problem?.code
    },
  }
}

test.serial(
  'an order of the platform’s own name says why its answer is not in DNS, to its operator, until it is',
  async t => {
    const it = scene(`*.${appsDomain}`, null)
    t.like(await it.look(byDns), { look: { points: false, delegated: false, problem: null }, answerSeen: false })

    server.misbehave(it.challenge, 'SERVFAIL')
    const failed = (await it.look(byDns)).look
    t.like(failed, { delegated: null, problem: { code: 'dnsFailed' } })
    t.regex(failed.problem!.message, /_acme-challenge\.apps\.berth\.test are not known: .*SERVFAIL/)
    const known = (await it.look(byDns, { delegated: true })).look
    t.like(known, { delegated: null, problem: { code: 'answerMissing' } })
    t.regex(known.problem!.message, /DNS_SERVERS.*SERVFAIL/)
    t.is(await it.code(), undefined, 'nothing waits for it')
    server.misbehave(it.challenge, null)

    it.delegate()
    const { look } = await it.look(byDns)
    t.like(look, { delegated: true, problem: { code: 'answerMissing' } })
    t.regex(look.problem!.message, /NS record of ACME_DNS_DOMAIN/)
    it.answer()
    t.like(await it.look(byDns), { look: { delegated: true, problem: null }, answerSeen: true })
  },
)

test.serial('an order of an account’s name that is delegated says so too, in words for its owner', async t => {
  const it = scene('shop.delegated.test', 'a')
  it.delegate()
  t.is(await it.code(byBoth), 'recordMissing', 'first it has to be proved')
  it.prove()
  t.is(await it.code(), 'notPointing')
  const { look } = await it.look(byBoth)
  t.like(look, { txtSeen: true, points: false, delegated: true, problem: { code: 'answerMissing' } })
  t.regex(look.problem!.message, /CNAME of _acme-challenge\.shop\.delegated\.test .* tell the operator/)
  t.notRegex(look.problem!.message, /DNS_SERVERS/)
  it.point()
  t.is(await it.code(byBoth), undefined, 'it is proved by http')
  t.is(await it.code(byDns), 'answerMissing')
  it.answer()
  t.like(await it.look(byDns), { look: { problem: null }, answerSeen: true })
})

test.serial('a question about the answer that fails hides nothing that its owner can do', async t => {
  const it = scene('shop.failing.test', 'a')
  it.prove()
  server.misbehave(it.challenge, 'SERVFAIL')
  t.is(await it.code(byBoth), 'notPointing')
  t.is(await it.code(byBoth, { delegated: true }), 'answerMissing', 'its owner has chosen DNS')
  it.point()
  t.is(await it.code(byBoth), undefined)
  t.is(await it.code(byDns), 'dnsFailed')
  server.misbehave(it.challenge, null)
  t.is(await it.code(byDns), undefined, 'the record to set is shown')
})

test('CAA records are asked for in the name of the account that wants the certificate', async t => {
  const asked: (string | undefined)[] = []
  const dns: Dns = {
    async look(_, __, asker) {
      asked.push(asker)
      return { records: [] }
    },
  }
  const sight = domainSight({
    ...{ dns, key, appsDomain, acmeDnsDomain, edgeProof: 'proof', ownDomains: [], publicAddresses: [] },
    read: hostReader({ dns, publicAddresses: [], port: 80 }),
  })
  const created_at = new Date()
  t.is(await sight.caaRefusal({ hostname: 'a.shop.dev', owner_id: 'ana', created_at }, []), null)
  t.deepEqual([...new Set(asked)], ['ana'])
})
