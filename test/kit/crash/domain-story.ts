import type { ExecutionContext } from 'ava'
import { startEntry } from '../platform/entry.ts'
import type { TestPlatform } from '../platform/platform.ts'
import { rows } from '../rows/rows.ts'
import type { TestDns } from '../servers/dns.ts'
import { handshake } from '../servers/https.ts'
import type { Pebble } from '../servers/pebble.ts'
import { diesAt } from './crash-kit.ts'

/** Every step of the workflow of a host name, and what the keeper does to the proxy, before and after. */
export const domainPoints = [
  ...['lookAtDomain', 'openOrder', 'answerChallenge', 'awaitValidation', 'finalizeOrder', 'collectCertificate'],
  'serveCertificate',
]
  .map(step => `domains.${step}`)
  .concat(['authority.order', 'authority.finalize', 'authority.collect', 'edge.setCertificate', 'edge.setName'])
  .flatMap(step => [`${step}:before`, `${step}:after`])

let names = 0

/**
 * Sets a domain whose records are in DNS, while the worker dies at a point of its life; the next worker brings it to its end: served by the
 * proxy with one certificate, and not more than two orders.
 */
export async function domainSurvives(
  t: ExecutionContext,
  { platform, dns, pebble }: { platform: TestPlatform; dns: TestDns; pebble: Pebble },
  point: string,
): Promise<void> {
  const { api, base, db, until } = platform
  const registered = `killed-${++names}.dev`
  const hostname = `shop.${registered}`
  await rows(db).host('h1') // seen just now
  const user = await api.makeUser()
  const app = await api.makeApp(user, { memoryMb: 512, subdomain: `killed-${names}` })
  const set = await api.as(user).post(`/v2/apps/${app.id}/network/custom`, JSON.stringify({ custom: hostname }))
  t.is(set.status, 200)
  const records = (await api.as(user).get(`/v2/apps/${app.id}/network/dns`)).body.response
  const { name, value } = records.find(({ type }: { type: string }) => type === 'cname')
  dns.set(value, 'A', '127.0.0.1')
  dns.set(name, 'CNAME', value)
  await diesAt(t, startEntry('worker', { ...base.settings, CRASH_POINT: point }), point)

  const healed = startEntry('worker', base.settings)
  t.teardown(() => healed.kill('SIGKILL'))
  await until(
    async () => (await db('certificates').where({ hostname, state: 'current' }).whereNotNull('served_at')).length === 1,
    120,
    `${hostname} is served after a kill at ${point}`,
  )
  t.is((await db('certificates').where({ hostname })).length, 1, 'one certificate, and no order beside it')
  const orders = await db('certificate_orders').where({ registered })
  t.true(orders.length <= 2, `${orders.length} orders`)
  const { certificate } = await handshake(base.proxy.tlsPort, hostname, { ca: await pebble.root() })
  t.is(certificate.subjectaltname, `DNS:${hostname}`)
  await until(
    async () => (await base.proxy.edge.listNames()).some(({ host }) => host === hostname),
    30,
    `${hostname} leads to its application`,
  )
  await healed.kill('SIGTERM')
}
