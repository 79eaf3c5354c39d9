import { createHash, X509Certificate } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { WebSocketServer } from 'ws'
import * as apps from '../../../db/apps/apps.ts'
import type { TestUser } from '../../kit/actors/api.ts'
import { startBrowser } from '../../kit/actors/browser.ts'
import { servingApp, testDomainPlatform } from '../../kit/platform/domain-platform.ts'
import type { TestDns } from '../../kit/servers/dns.ts'
import { askHttps, handshake } from '../../kit/servers/https.ts'
import { ask } from '../../kit/servers/origin.ts'
import type { Pebble } from '../../kit/servers/pebble.ts'

// From the request of a customer to a browser that opens https without a warning: API, Temporal, Postgres, nginx, DNS and an authority
// that validates what it certifies.

const stage = testDomainPlatform()
const platform = stage().then(({ platform }) => platform)
let dns: TestDns
let pebble: Pebble
test.serial.before(async () => {
  ;({ dns, pebble } = await stage())
})

const json = JSON.stringify

/** A web application of a user that answers with its name, and WebSockets with an echo. */
async function running(user: TestUser, name: string) {
  const { base } = await platform
  const { app, origin } = await servingApp(await platform, user.id, name)
  const sockets = new WebSocketServer({ server: origin.server })
  sockets.on('connection', socket => socket.on('message', message => socket.send(`echo ${message}`)))
  base.undo.push(async () => {
    for (const socket of sockets.clients) socket.terminate()
  })
  const actor = (await platform).api.as(user)
  return {
    ...{ app, origin, actor },
    set: (custom: string) => actor.post(`/v2/apps/${app.id}/network/custom`, json({ custom })),
    records: async (): Promise<{ type: string; name: string; value: string; status: string }[]> => {
      const { services } = (await platform).api
      services.dnsRecords.clear()
      return (await actor.get(`/v2/apps/${app.id}/network/dns`)).body.response
    },
  }
}

/** Sets what `GET .../dns` asks for, as its owner would, and waits until all is active. */
async function pointed({ records }: Awaited<ReturnType<typeof running>>): Promise<void> {
  const { until } = await platform
  const cname = (await records()).find(({ type, name }) => type === 'cname' && !name.startsWith('_'))!
  dns.set(cname.value, 'A', '127.0.0.1')
  dns.set(cname.name, 'CNAME', cname.value)
  await until(
    async () => (await records()).some(({ name, status }) => name === cname.name && status === 'active'),
    60,
    cname.name,
  )
}

test.serial('a customer’s domain is served by https after one record, and plain http is sent there', async t => {
  const { api, base } = await platform
  const user = await api.makeUser()
  const shop = await running(user, 'the shop')
  t.is((await shop.set('shop.berth.dev')).status, 200)
  await pointed(shop)
  const seen = await askHttps(base.proxy.tlsPort, 'shop.berth.dev', await pebble.root())
  t.deepEqual([seen.status, seen.body], [200, '<title>the shop</title>'])
  const plain = await ask(base.proxy.port, 'shop.berth.dev', { path: '/cart?a=1' })
  t.is(plain.status, 308)
  t.regex(String(plain.headers.location), /^https:\/\/shop\.berth\.dev(:\d+)?\/cart\?a=1$/)
  t.is((await ask(base.proxy.port, `${shop.app.subdomain}.apps.localhost`)).status, 200, 'its own address stays')
  const stored = await api.db('certificates').where({ state: 'current' }).select('key_sealed', 'chain')
  t.true(stored.length > 0)
  t.true(stored.every(({ chain }: { chain: string }) => !chain.includes('PRIVATE KEY')))
})

test.serial('a browser opens it without a warning, and a WebSocket stays open across a renewal', async t => {
  t.timeout(180_000)
  const { api, base, until, db } = await platform
  const user = await api.makeUser()
  const live = await running(user, 'live')
  await live.set('live.berth.dev')
  await pointed(live)
  const host = 'live.berth.dev'
  const first = await handshake(base.proxy.tlsPort, host, { ca: await pebble.root() })
  const { chain } = await db('certificates').where({ hostname: host }).first()
  const pin = spkiOf(chain.slice(chain.lastIndexOf('-----BEGIN')))
  const browser = await startBrowser([
    `--host-resolver-rules=MAP ${host} 127.0.0.1:${base.proxy.tlsPort}`,
    `--ignore-certificate-errors-spki-list=${pin}`,
  ])
  t.teardown(() => browser.close())
  const page = await browser.newPage()
  const answer = await page.goto(`https://${host}/`)
  t.is(answer?.status(), 200)
  t.is(await page.title(), 'live')
  t.deepEqual(answer?.securityDetails()?.subjectAlternativeNames(), [host])
  const echo = (text: string) =>
    page.evaluate(
      sent =>
        new Promise<string>(resolve => {
          const { socket } = globalThis as unknown as { socket: WebSocket }
          socket.onmessage = ({ data }) => resolve(String(data))
          socket.send(sent)
        }),
      text,
    )
  await page.evaluate(
    at =>
      new Promise<void>((resolve, reject) => {
        const socket = new WebSocket(at)
        Object.assign(globalThis, { socket })
        socket.onopen = () => resolve()
        socket.onerror = () => reject(new Error('no WebSocket'))
      }),
    `wss://${host}/`,
  )
  t.is(await echo('one'), 'echo one')
  await db('certificates').where({ hostname: host }).update({ renew_at: new Date() })
  await db('domains')
    .where({ hostname: host })
    .update({ look_at: new Date(Date.now() - 3_600_000) })
  await until(
    async () => {
      const now = await handshake(base.proxy.tlsPort, host, { ca: await pebble.root() })
      return now.certificate.serialNumber !== first.certificate.serialNumber
    },
    60,
    'the renewal',
  )
  t.is(await echo('two'), 'echo two')
  t.is((await db('certificates').where({ hostname: host })).length, 1)
})

test.serial('two applications with one domain share its requests, and one that ends gets none', async t => {
  const { api, base, until, db } = await platform
  const user = await api.makeUser()
  const [one, two] = [await running(user, 'one'), await running(user, 'two')]
  for (const app of [one, two]) t.is((await app.set('both.berth.dev')).status, 200)
  await pointed(one)
  const root = await pebble.root()
  const answers = async (count: number) => {
    const all = await Promise.all(
      Array.from({ length: count }, () => askHttps(base.proxy.tlsPort, 'both.berth.dev', root)),
    )
    return [...new Set(all.map(({ status, body }) => `${status} ${body}`))].sort()
  }
  t.deepEqual(await answers(40), ['200 <title>one</title>', '200 <title>two</title>'])
  await apps.recordStopped(db, one.app.id, { code: 0, oom: false, at: new Date() })
  await until(async () => (await answers(20)).length === 1, 20, 'the route of the one that ended is removed')
  t.deepEqual(await answers(20), ['200 <title>two</title>'])
})

test.serial('a domain is certified before its traffic moves here, by a record in DNS', async t => {
  const { api, until, db } = await platform
  const early = await running(await api.makeUser(), 'early')
  await early.set('early.berth.dev')
  const txt = (await early.records()).find(({ name }) => name === '_berth.early.berth.dev')!
  dns.set('early.berth.dev', 'A', '192.0.2.1')
  dns.set(txt.name, 'TXT', txt.value)
  const challenge = await until(
    async () => (await early.records()).find(({ name }) => name === '_acme-challenge.early.berth.dev'),
    60,
    'the value for this order',
  )
  t.is(challenge.type, 'txt')
  dns.set(challenge.name, 'TXT', challenge.value)
  await until(
    async () => (await db('certificates').where({ hostname: 'early.berth.dev', state: 'current' })).length === 1,
    90,
    'the certificate',
  )
  t.false((await db('domains').where({ hostname: 'early.berth.dev' }).first()).points)
})

test.serial('an authority that is away is reported with the next try, and goes on when it is back', async t => {
  const { api, until, db } = await platform
  const late = await running(await api.makeUser(), 'late')
  await pebble.stop()
  await late.set('late.berth.dev')
  const cname = (await late.records()).find(({ type }) => type === 'cname')!
  dns.set(cname.value, 'A', '127.0.0.1')
  dns.set(cname.name, 'CNAME', cname.value)
  const row = () => db('domains').where({ hostname: 'late.berth.dev' }).first()
  await until(async () => ['unreachable', 'timeout'].includes((await row()).code), 60, 'why it does not go on')
  const { message, order_at, orders_failed } = await row()
  t.truthy(message)
  t.true(order_at > new Date())
  t.is(orders_failed, 0, 'nothing was refused')
  await pebble.start()
  await db('domains')
    .where({ hostname: 'late.berth.dev' })
    .update({ order_at: new Date(), look_at: new Date(0) })
  await until(
    async () => (await row()).code === null && (await late.records()).some(one => one.status === 'active'),
    90,
    'it goes on',
  )
})

test.serial('a purge answers once the proxy has it', async t => {
  const { api, db, base } = await platform
  const user = await api.makeUser()
  const { app, actor } = await running(user, 'cached')
  await sleep(200)
  t.is((await actor.post(`/v2/apps/${app.id}/network/purge_cache`)).status, 200)
  const [route] = await base.proxy.edge.findRoutes([`${app.subdomain}.apps.localhost`])
  t.is(route!.version, '1.1')
  t.is((await db('apps').where({ id: app.id }).first()).cache_version, 1)
})

/** By this a browser can be made to trust a certificate of a chain. */
const spkiOf = (pem: string): string =>
  createHash('sha256')
    .update(new X509Certificate(pem).publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64')
