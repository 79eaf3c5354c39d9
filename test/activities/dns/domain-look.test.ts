import type { IncomingMessage, ServerResponse } from 'node:http'
import test from 'ava'
import { lookAtCaa, lookAtDomain, lookForProofs } from '../../../activities/dns/domain-look.ts'
import { hostReader } from '../../../activities/dns/probe.ts'
import { resolverDns } from '../../../activities/dns/resolver.ts'
import { proofRecords } from '../../../policy/domains/records.ts'
import { TestDns } from '../../kit/servers/dns.ts'
import { type Origin, startOrigin } from '../../kit/servers/origin.ts'

const edgeProof = 'proof-of-this-installation'
const key = Buffer.alloc(32, 1)
const proofOf = (hostname: string, accountId = 'a') => proofRecords(key, { accountId, hostname }, 'apps.berth.test')

let server: TestDns
let origin: Origin
let requests: IncomingMessage[] = []
/** What the web server that names lead to answers; by default as our proxy does. */
let answer: (request: IncomingMessage, response: ServerResponse) => void
const asOurs: typeof answer = (request, response) => response.end(`${request.url?.split('/').at(-1)}.${edgeProof}`)

test.before(async () => {
  server = await TestDns.start()
  origin = await startOrigin((request, response) => {
    requests.push(request)
    answer(request, response)
  })
})
test.after.always(() => Promise.all([server?.stop(), origin?.stop()]))
test.beforeEach(() => {
  answer = asOurs
  requests = []
})

/** Looks with a probe that may contact `reachable`. */
function look(hostname: string, { publicAddresses = [] as string[], reachable = ['127.0.0.0/8'] } = {}) {
  const dns = resolverDns([server.address])
  const read = hostReader({ dns, publicAddresses: reachable, port: origin.port })
  const ownDomains = ['berth.test', 'apps.berth.test']
  return lookAtDomain(hostname, proofOf(hostname), { dns, read, ownDomains, publicAddresses, edgeProof })
}

test.serial('the TXT record of the account is seen, also among others and with spaces', async t => {
  const { txt } = proofOf('txt.test')
  server.set(txt.name, 'TXT', 'something', ` ${txt.value} `)
  t.like(await look('txt.test'), { txt: 'seen', cname: 'missing' })
  server.set(txt.name, 'TXT', proofOf('txt.test', 'b').txt.value, proofOf('other.test').txt.value, `${txt.value}0`)
  t.like(await look('txt.test'), { txt: 'missing', cname: 'missing' })
})

test.serial(
  'the CNAME record of the account is seen, and leads here; that of another account only leads here',
  async t => {
    server.set('www.cname.test', 'CNAME', proofOf('www.cname.test').cname.value)
    t.deepEqual(await look('www.cname.test'), { txt: 'missing', cname: 'seen', points: 'cname', trouble: null })
    server.set('www.cname.test', 'CNAME', proofOf('www.cname.test', 'b').cname.value)
    t.like(await look('www.cname.test'), { cname: 'missing', points: 'cname' })
    t.is(requests.length, 0)
  },
)

test.serial(
  'a CNAME to an application leads here and proves nothing: another account may have its name next',
  async t => {
    server.set('dangling.test', 'CNAME', 'mine.apps.berth.test')
    t.like(await look('dangling.test'), { txt: 'missing', cname: 'missing', points: 'cname' })
    server.set('far.test', 'CNAME', 'alias.other.test')
    server.set('alias.other.test', 'CNAME', 'mine.apps.berth.test')
    t.like(await look('far.test'), { points: 'cname' })
    server.set('near.test', 'CNAME', 'apps.berth.test.other.test')
    t.like(await look('near.test'), { points: null })
  },
)

test.serial('a chain without an end is left after 8 records', async t => {
  server.set('round.test', 'CNAME', 'about.test')
  server.set('about.test', 'CNAME', 'round.test')
  const before = server.questions.length
  t.is((await look('round.test')).points, null)
  t.true(server.questions.length - before < 20)
})

test.serial('a name leads here by its addresses if all of them are those of the proxy', async t => {
  const publicAddresses = ['192.0.2.0/28', '2001:db8::/64']
  server.set('apex.test', 'A', '192.0.2.1')
  server.set('apex.test', 'AAAA', '2001:db8::9')
  t.like(await look('apex.test', { publicAddresses }), { points: 'address' })
  server.set('apex.test', 'A', '192.0.2.1', '198.51.100.1')
  t.like(await look('apex.test', { publicAddresses }), { points: null })
  t.is(requests.length, 0)
})

test.serial('a name behind a foreign proxy leads here if a probe comes back', async t => {
  server.set('cdn.test', 'A', '127.0.0.1')
  t.deepEqual(await look('cdn.test'), { txt: 'missing', cname: 'missing', points: 'probe', trouble: null })
  t.is(requests[0]!.headers.host, `cdn.test:${origin.port}`)
  t.regex(requests[0]!.url!, /^\/\.well-known\/berth-check\/[0-9a-f]{32}$/)
  await look('cdn.test')
  t.not(requests[0]!.url, requests[1]!.url, 'a nonce is used once')
})

test.serial('another server, or one that misbehaves, is not ours', async t => {
  server.set('odd.test', 'A', '127.0.0.1')
  const rows: [why: RegExp, how: typeof answer][] = [
    [/another server/, (_, response) => response.end('hello')],
    [/another server/, (request, response) => response.end(request.url?.split('/').at(-1))],
    [/HTTP 302/, (_, response) => response.writeHead(302, { location: `http://127.0.0.1:${origin.port}/` }).end()],
    [/HTTP 404/, (request, response) => asOurs(request, response.writeHead(404) as ServerResponse)],
    [/another page/, (_, response) => response.end('x'.repeat(2000))],
    [/connection was closed/, request => request.socket.destroy()],
    [/does not speak http/, request => request.socket.end('SSH-2.0-x\r\n')],
    [/in time/, () => {}],
    [/in time/, (_, response) => response.writeHead(200).flushHeaders()],
  ]
  for (const [why, how] of rows) {
    answer = how
    const seen = await look('odd.test')
    t.is(seen.points, null, String(why))
    t.regex(seen.trouble ?? '', why)
  }
  t.is(requests.length, rows.length, 'no redirect is followed')
})

test.serial('a probe reaches no private network, whichever of the addresses is one', async t => {
  server.set('inside.test', 'A', '127.0.0.1')
  server.set('mixed.test', 'A', '192.0.2.1', '127.0.0.1')
  server.set('inside6.test', 'AAAA', '::1')
  server.set('mapped.test', 'AAAA', '::ffff:127.0.0.1')
  server.set('metadata.test', 'A', '169.254.169.254')
  for (const hostname of ['inside.test', 'mixed.test', 'inside6.test', 'mapped.test', 'metadata.test']) {
    const seen = await look(hostname, { reachable: [] })
    t.is(seen.points, null, hostname)
    t.regex(seen.trouble ?? '', /not on the public network.*EDGE_PUBLIC_ADDRESSES/, hostname)
  }
  t.is(requests.length, 0)
})

test.serial('the address that was checked is the one that is contacted', async t => {
  server.set('rebind.test', 'A', '127.0.0.1')
  const dns = resolverDns([server.address])
  const read = hostReader({
    dns: {
      async look(name, type) {
        const found = await dns.look(name, type)
        if (type === 'A') server.set('rebind.test', 'A', '127.0.0.2')
        return found
      },
    },
    publicAddresses: ['127.0.0.1'],
    port: origin.port,
  })
  t.deepEqual(await read('rebind.test', '/x'), { body: `x.${edgeProof}` }, 'the server listens at one address only')
  t.regex(JSON.stringify(await read('rebind.test', '/x')), /127\.0\.0\.2/)
})

test.serial('a record that name servers do not answer is unknown, and the reason is reported', async t => {
  server.misbehave('_berth.broken.test', 'SERVFAIL')
  const seen = await look('broken.test')
  t.like(seen, { txt: 'failed', cname: 'missing', points: null })
  t.regex(seen.trouble ?? '', /_berth\.broken\.test.*SERVFAIL/)
  server.misbehave('_berth.broken.test', null)
  t.like(await look('broken.test'), { txt: 'missing', trouble: 'broken.test has no address.' })
})

test.serial('the records of two accounts are compared by the same two questions', async t => {
  const [own, other] = [proofOf('two.test', 'a'), proofOf('two.test', 'b')]
  server.set('two.test', 'CNAME', own.cname.value)
  server.set(own.txt.name, 'TXT', other.txt.value)
  const before = server.questions.length
  t.deepEqual(await lookForProofs(resolverDns([server.address]), [own, other]), {
    sightings: [
      { txt: 'missing', cname: 'seen' },
      { txt: 'seen', cname: 'missing' },
    ],
    trouble: null,
  })
  t.is(server.questions.length - before, 2)
})

test.serial('CAA records are read from the nearest name that has some; unknown ones refuse nothing', async t => {
  const dns = resolverDns([server.address])
  server.set('caa.test', 'CAA', '0 issue other.example', '0 issuewild ca.example')
  t.regex((await lookAtCaa(dns, 'a.b.caa.test', ['ca.example'])) ?? '', /records of caa\.test/)
  t.is(await lookAtCaa(dns, '*.b.caa.test', ['ca.example']), null)
  server.set('b.caa.test', 'CAA', '0 issue ca.example')
  t.is(await lookAtCaa(dns, 'a.b.caa.test', ['ca.example']), null)
  server.misbehave('b.caa.test', 'SERVFAIL')
  t.is(await lookAtCaa(dns, 'a.b.caa.test', ['other.example']), null)
  t.is(await lookAtCaa(dns, 'no.records.test', ['ca.example']), null)
})
