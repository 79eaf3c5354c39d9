import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import dnsPacket, { type Packet } from 'dns-packet'
import fc from 'fast-check'
import { resolverDns } from '../../../activities/dns/resolver.ts'
import { delegationOf } from '../../../policy/domains/records.ts'
import { textsByName } from '../../../workers/domains/domain-work.ts'
import { answerOf } from '../../../workers/name-server/answers.ts'
import { Allowance, type NameServer, startNameServer } from '../../../workers/name-server/name-server.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { askPacket, TestDns } from '../../kit/servers/dns.ts'

const zone = 'acme.berth.test'
const rows = new Map<string, string[]>([
  [`f00d.${zone}`, ['value-of-the-name', 'value-of-the-wildcard']],
  [`large.${zone}`, Array.from({ length: 40 }, (_, n) => `${n}-${'v'.repeat(40)}`)],
])
const asked: string[] = []
const warnings: unknown[] = []

let server: NameServer
test.before(async () => {
  server = await startNameServer({
    ...{ name: 'ACME.berth.test', address: '127.0.0.1', port: 0 },
    log: { warn: (...words: unknown[]) => void warnings.push(words) },
    async texts(name) {
      asked.push(name)
      if (name.startsWith('broken.')) throw new Error('no rows')
      return rows.get(name) ?? []
    },
  })
})
test.after.always(() => server?.stop())

const query = (name: string, type = 'TXT', more: object = {}) =>
  ({ type: 'query', id: 7, flags: dnsPacket.RECURSION_DESIRED, questions: [{ name, type }], ...more }) as Packet
const ask = async (name: string, type?: string, more?: object) => {
  const answer = await askPacket(server.port, query(name, type, more))
  if (!answer) return null
  const { rcode, flag_aa, flag_ra, flag_tc, answers, authorities } = answer as Packet & Record<string, unknown>
  const texts = answers?.map(one => String((one as { data?: unknown }).data))
  return { rcode, flag_aa, flag_ra, flag_tc, texts, authorities: authorities?.map(({ type }) => type) }
}

test.serial('the name server has the texts of names in its zone, whatever their case', async t => {
  const answer = await ask(`F00d.Acme.BERTH.test`)
  t.deepEqual(answer, {
    ...{ rcode: 'NOERROR', flag_aa: true, flag_ra: false, flag_tc: false },
    ...{ texts: ['value-of-the-name', 'value-of-the-wildcard'], authorities: [] },
  })
  t.is(asked.at(-1), `f00d.${zone}`)
})

test.serial('a missing record of its zone is missing for a second, and its name always exists', async t => {
  for (const [name, type] of [
    [`none.${zone}`, 'TXT'],
    [`f00d.${zone}`, 'A'],
    [zone, 'NS'],
    [zone, 'TXT'],
    [`f00d.${zone}`, 'CNAME'],
  ] as const)
    t.like(
      await ask(name, type),
      { rcode: 'NOERROR', flag_aa: true, texts: [], authorities: ['SOA'] },
      `${name} ${type}`,
    )
  t.like(await ask(zone, 'SOA'), { rcode: 'NOERROR', authorities: [] })
})

test.serial('the name server refuses all other names, and resolves nothing', async t => {
  const before = asked.length
  for (const name of ['example.com', 'berth.test', `x${zone}`, `${zone}.example.com`])
    t.like(await ask(name), { rcode: 'REFUSED', flag_ra: false, texts: [], authorities: [] }, name)
  t.like(await ask(zone, 'TXT', { questions: [{ name: zone, type: 'TXT', class: 'CH' }] }), { rcode: 'FORMERR' })
  t.is(asked.length, before)
})

test.serial('an answer that does not fit is truncated, and whole over TCP', async t => {
  t.like(await ask(`large.${zone}`), { rcode: 'NOERROR', flag_tc: true, texts: [] })
  const answer = await resolverDns([`127.0.0.1:${server.port}`]).look(`large.${zone}`, 'TXT')
  t.deepEqual(answer, { records: rows.get(`large.${zone}`) })
})

test.serial('rows that cannot be read are a failure, and logged', async t => {
  t.like(await ask(`broken.${zone}`), { rcode: 'SERVFAIL', texts: [] })
  t.regex(JSON.stringify(warnings), /texts of a name/)
})

test.serial('a resolver finds a challenge through the CNAME of a customer', async t => {
  const dns = await TestDns.start()
  t.teardown(() => dns.stop())
  dns.delegate(zone, server.port)
  dns.set('_acme-challenge.shop.test', 'CNAME', `f00d.${zone}`)
  t.deepEqual(await resolverDns([dns.address]).look('_acme-challenge.shop.test', 'TXT'), {
    records: rows.get(`f00d.${zone}`),
  })
})

/** What a message gets; `null` = no answer. */
const of = async (message: Buffer) => {
  const answer = await answerOf(message, { name: zone, texts: async () => ['v'] }, 'udp')
  return answer && dnsPacket.decode(answer)
}

test('answers, other kinds of messages and wrong counts get no more than a header', async t => {
  const message = dnsPacket.encode(query(`f00d.${zone}`))
  const changed = (change: (bytes: Buffer) => void) => {
    const bytes = Buffer.from(message)
    change(bytes)
    return bytes
  }
  t.is(await of(changed(bytes => bytes.writeUInt16BE(0x8000, 2))), null, 'an answer')
  t.is(await of(message.subarray(0, 11)), null)
  t.is(await of(Buffer.concat([message, Buffer.alloc(1300)])), null)
  t.like(await of(changed(bytes => bytes.writeUInt16BE(0x2800, 2))), { rcode: 'NOTIMP', questions: [] }, 'an update')
  for (const [at, count] of [
    [4, 0],
    [4, 2],
    [6, 1],
    [6, 65_535],
    [8, 1],
    [10, 2],
    [10, 65_535],
  ] as const)
    t.like(
      await of(changed(bytes => bytes.writeUInt16BE(count, at))),
      { rcode: 'FORMERR', questions: [] },
      `${at} ${count}`,
    )
  t.like(await of(message), { rcode: 'NOERROR', id: 7 })
})

test('the answer to any bytes is short, well formed and never a question', async t => {
  const valid = dnsPacket.encode(
    query(`f00d.${zone}`, 'TXT', { additionals: [{ type: 'OPT', name: '.', udpPayloadSize: 4096, options: [] }] }),
  )
  const damaged = fc.array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { maxLength: 6 }).map(changes => {
    const bytes = Buffer.from(valid)
    for (const [at, byte] of changes) bytes[at] = byte
    return bytes
  })
  const noise = fc.uint8Array({ maxLength: 1300 }).map(bytes => Buffer.from(bytes))
  const headed = noise.map(bytes => Buffer.concat([valid.subarray(0, 12), bytes]))
  await fc.assert(
    fc.asyncProperty(fc.oneof(damaged, noise, headed), async message => {
      const answer = await answerOf(message, { name: zone, texts: async () => ['v'] }, 'udp')
      if (answer === null) return
      t.true(answer.length <= message.length + 120, `${answer.length} for ${message.length}`)
      t.is(dnsPacket.decode(answer).type, 'response')
      t.deepEqual(answer.subarray(0, 2), message.subarray(0, 2))
    }),
    { numRuns: 3000 },
  )
})

test.serial('noise over UDP and TCP leaves it answering', async t => {
  for (let n = 0; n < 40; n++) {
    await sendOver(randomBytes(n * 7))
    const size = Buffer.from([0, n])
    await sendOver(Buffer.concat([size, randomBytes(n)]))
  }
  await sleep(1000) // those were all that this network may ask in a second
  t.like(await ask(`f00d.${zone}`), { rcode: 'NOERROR' })
})

/** Sends bytes over a connection; resolves to what came back, once the server has closed it. */
async function sendOver(bytes: Buffer, port = server.port): Promise<Buffer> {
  const socket = connect(port, '127.0.0.1')
  const pieces: Buffer[] = []
  socket.on('error', () => {}) // it was closed
  socket.on('data', piece => pieces.push(piece))
  socket.end(bytes)
  await once(socket, 'close')
  return Buffer.concat(pieces)
}

test('questions of one network, and of all, are bounded in each second', t => {
  const allowance = new Allowance()
  const taken = (address: string, count: number, now: number) =>
    Array.from({ length: count }, () => allowance.take(address, now)).filter(Boolean).length
  t.is(taken('192.0.2.1', 40, 1000), 40)
  t.is(taken('192.0.2.99', 40, 1500), 10)
  t.is(taken('192.0.3.1', 40, 1500), 40)
  t.is(taken('2001:db8:0:1::1', 30, 1999), 30)
  t.is(taken('2001:db8:0:ff::2', 30, 1999), 20)
  t.is(taken('192.0.2.1', 60, 2000), 50)
  const all = Array.from({ length: 3000 }, (_, n) => allowance.take(`10.${n >> 8}.${n & 255}.1`, 3000))
  t.is(all.filter(Boolean).length, 2000)
})

test.serial('a busy server leaves questions unanswered instead of collecting them', async t => {
  const blocked = await blockedServer(t)
  const message = dnsPacket.encode(query(`f00d.${zone}`))
  const framed = Buffer.concat([Buffer.from([0, message.length]), message])
  const answers = Array.from({ length: 60 }, () => sendOver(framed, blocked.port))
  let unanswered = 0
  for (const answer of answers) void answer.then(({ length }) => length === 0 && unanswered++)
  await comesTrue(() => unanswered === 10)
  blocked.release()
  const lengths = (await Promise.all(answers)).map(({ length }) => length)
  t.is(lengths.filter(length => length > 0).length, 50)
  t.is(blocked.most(), 50)
})

test.serial('questions over TCP count like those over UDP, and a connection has an end', async t => {
  const own = await startNameServer({
    ...{ name: zone, address: '127.0.0.1', port: 0, connectionMs: 1500, log: { warn: () => {} } },
    texts: async () => ['v'],
  })
  t.teardown(() => own.stop())
  const message = dnsPacket.encode(query(`f00d.${zone}`))
  const framed = Buffer.concat([Buffer.from([0, message.length]), message])
  // Within one second, so that all count together.
  await sleep(1000 - (Date.now() % 1000))
  const one = await sendOver(framed, own.port)
  const many = await sendOver(Buffer.concat(Array.from({ length: 60 }, () => framed)), own.port)
  t.is(many.length, 49 * one.length)

  const socket = connect(own.port, '127.0.0.1')
  socket.on('error', () => {}) // it was closed
  const began = performance.now()
  const dripping = setInterval(() => socket.write(Buffer.alloc(1, 1)), 200)
  await once(socket, 'close')
  clearInterval(dripping)
  t.true(performance.now() - began > 1000)
})

test('each name has the texts of its challenges, those of a wildcard with its parent’s', t => {
  const key = Buffer.alloc(32, 7)
  const challenge = (hostname: string, value: string) => ({ hostname, owner_id: 'a', value })
  const texts = textsByName(
    [challenge('x.test', 'one'), challenge('*.x.test', 'two'), challenge('y.test', 'three')],
    key,
    zone,
  )
  t.deepEqual([...texts.values()], [['one', 'two'], ['three']])
  t.true(texts.has(delegationOf(key, { hostname: 'x.test', owner_id: 'a' }, zone).value))
})

async function blockedServer(t: ExecutionContext) {
  let [reading, most] = [0, 0]
  let release = () => {}
  const gate = new Promise<void>(resolve => {
    release = resolve
  })
  const own = await startNameServer({
    ...{ name: zone, address: '127.0.0.1', port: 0, log: { warn: () => {} } },
    async texts() {
      most = Math.max(most, ++reading)
      await gate
      reading--
      return ['v']
    },
  })
  t.teardown(() => own.stop())
  return { port: own.port, release, most: () => most }
}
