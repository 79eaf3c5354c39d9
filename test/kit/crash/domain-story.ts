import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext } from 'ava'
import { removeApp } from '../../../db/apps/app-creation.ts'
import { type DomainPlatform, testDomainPlatform } from '../platform/domain-platform.ts'
import { isFrozen, startEntry } from '../platform/entry.ts'
import { rows } from '../rows/rows.ts'
import { crashPostgres, testDatabase } from '../servers/database.ts'
import { handshake } from '../servers/https.ts'
import { type Relay, relayTo } from '../servers/relay.ts'
import { type OwnTemporal, ownTemporal } from '../servers/temporal.ts'
import { diesAt } from './crash-kit.ts'

/** Every step of the workflow of a host name, and what the keeper does to the proxy, before and after. */
export const domainPoints = [
  ...['lookAtDomain', 'openOrder', 'answerChallenge', 'awaitValidation', 'finalizeOrder', 'collectCertificate'],
  'serveCertificate',
]
  .map(step => `domains.${step}`)
  .concat(['authority.order', 'authority.finalize', 'authority.collect', 'edge.setCertificate', 'edge.setName'])
  .flatMap(step => [`${step}:before`, `${step}:after`])

/**
 * What ends at a point: the worker, the proxy, or the server of Temporal, with its data or without, by a kill; the server of Postgres, by a
 * crash; or the line to one of them.
 */
export const domainVictims = [
  ...(['worker', 'proxy', 'server of Postgres', 'line to Postgres', 'line to Temporal'] as const),
  ...(['server of Temporal', 'server of Temporal with its data'] as const),
]
export type DomainVictim = (typeof domainVictims)[number]

/** A platform of domains whose every part may end. */
export interface DomainStage extends DomainPlatform {
  killTemporal: OwnTemporal['kill']
}

/** Call it once at the top level of a test file. */
export function domainStage(): () => Promise<DomainStage> {
  const temporal = ownTemporal()
  const database = () => testDatabase({ durable: true })
  const started = testDomainPlatform({ worker: false, database, temporal: temporal.start })
  return async () => ({ ...(await started()), killTemporal: temporal.kill })
}

/** How long what the worker talks to is away. */
const awayMs = 3000

let names = 0

/**
 * Sets a domain whose records are in DNS, while something ends at a point of its life and comes back; the domain comes to its end: served
 * by the proxy with one certificate, and not more than two orders.
 */
export async function domainSurvives(
  t: ExecutionContext,
  stage: DomainStage,
  victim: DomainVictim,
  point: string,
): Promise<void> {
  const { platform, dns, pebble } = stage
  const { api, base, db, until } = platform
  const registered = `killed-${++names}.dev`
  const hostname = `shop.${registered}`
  await rows(db).host('h1') // seen just now
  const user = await api.makeUser()
  const app = await api.makeApp(user, { memoryMb: 512, subdomain: `killed-${names}` })
  const set = (custom: string) => api.as(user).post(`/v2/apps/${app.id}/network/custom`, JSON.stringify({ custom }))
  t.is((await set(hostname)).status, 200)
  const records = (await api.as(user).get(`/v2/apps/${app.id}/network/dns`)).body.response
  const { name, value } = records.find(({ type }: { type: string }) => type === 'cname')
  dns.set(value, 'A', '127.0.0.1')
  dns.set(name, 'CNAME', value)
  const worker = await (victim === 'worker'
    ? afterDeath(t, stage, point)
    : afterOutage(t, stage, { victim, point, hostname }))
  await until(
    async () => (await db('certificates').where({ hostname, state: 'current' }).whereNotNull('served_at')).length === 1,
    120,
    `${hostname} is served after the end of the ${victim} at ${point}`,
  )
  t.is((await db('certificates').where({ hostname })).length, 1, 'one certificate, and no order alongside it')
  const orders = await db('certificate_orders').where({ registered })
  t.true(orders.length <= 2, `${orders.length} orders`)
  const { certificate } = await handshake(base.proxy.tlsPort, hostname, { ca: await pebble.root() })
  t.is(certificate.subjectaltname, `DNS:${hostname}`)
  await until(
    async () => (await base.proxy.edge.listNames()).some(({ host }) => host === hostname),
    30,
    `${hostname} leads to its application`,
  )
  if (victim === 'server of Postgres') await survivesLater(t, stage, hostname, () => set('@'))
  await worker.kill('SIGTERM')
  await removeApp(db, app.id) // the host has room for the next one
}

/** The server of Postgres crashes again while the certificate is renewed, and right after the name was removed: the proxy has what is true then. */
async function survivesLater(
  t: ExecutionContext,
  { platform: { base, db, until }, pebble }: DomainPlatform,
  hostname: string,
  remove: () => Promise<{ status: number }>,
): Promise<void> {
  const { serial } = await db('certificates').where({ hostname }).first('serial')
  await db('certificates').where({ hostname }).update({ renew_at: new Date() })
  await db('domains')
    .where({ hostname })
    .update({ look_at: new Date(Date.now() - 3_600_000) })
  const next = () => db('certificates').where({ hostname }).whereRaw('serial is distinct from ?', [serial]).first()
  await until(next, 60, 'the renewal begins')
  await crashPostgres(db)
  const renewed = () =>
    db('certificates').where({ hostname, state: 'current' }).whereNot({ serial }).whereNotNull('served_at').first()
  await until(renewed, 120, `${hostname} is renewed`)
  const { certificate } = await handshake(base.proxy.tlsPort, hostname, { ca: await pebble.root() })
  t.is(certificate.serialNumber.toLowerCase(), (await renewed()).serial.toLowerCase())
  t.is((await remove()).status, 200)
  await crashPostgres(db)
  const { edge } = base.proxy
  const left = async () => [...(await edge.listNames()), ...(await edge.listCertificates())]
  await until(async () => (await left()).every(({ host }) => host !== hostname), 30, `${hostname} is no more`)
}

/** The worker that follows one that has died at the point. */
async function afterDeath(t: ExecutionContext, { platform: { base } }: DomainPlatform, point: string) {
  await diesAt(t, startEntry('worker', { ...base.settings, CRASH_POINT: point }), point)
  const healed = startEntry('worker', base.settings)
  t.teardown(() => healed.kill('SIGKILL'))
  return healed
}

/** A worker for which what it talks to is away after the point, and back some seconds later. */
async function afterOutage(
  t: ExecutionContext,
  { platform: { base, db, until }, killTemporal }: DomainStage,
  { victim, point, hostname }: { victim: Exclude<DomainVictim, 'worker'>; point: string; hostname: string },
) {
  const database = new URL(base.settings.DATABASE_URL!)
  const toPostgres = await relayTo({ host: '127.0.0.1', port: Number(database.port) })
  const toTemporal = await relayTo({ host: '127.0.0.1', port: Number(base.config.temporalAddress.split(':')[1]) })
  database.port = String(toPostgres.port)
  const worker = startEntry('worker', {
    ...base.settings,
    ...{ DATABASE_URL: database.href, TEMPORAL_ADDRESS: `127.0.0.1:${toTemporal.port}` },
    ...{ CRASH_POINT: point, CRASH_SIGNAL: 'SIGSTOP' },
  })
  t.teardown(async () => {
    await worker.kill('SIGKILL')
    for (const line of [toPostgres, toTemporal]) await line.close()
  })
  await until(async () => isFrozen(worker), 120, `the worker comes to ${point}: ${worker.output().slice(-1000)}`)
  const wakes = () => worker.child.kill('SIGCONT')
  const away = async (begin: () => Promise<unknown>, end: () => Promise<unknown>) => {
    await begin()
    wakes()
    await sleep(awayMs)
    await end()
  }
  const cut = (line: Relay) =>
    away(
      () => line.mode('cut'),
      () => line.mode('pass'),
    )
  const ends: Record<typeof victim, () => Promise<unknown>> = {
    proxy: () =>
      away(
        () => base.proxy.kill('SIGKILL'),
        () => base.proxy.start(),
      ),
    'server of Postgres': () => crashPostgres(db, wakes),
    'line to Postgres': () => cut(toPostgres),
    'line to Temporal': () => cut(toTemporal),
    'server of Temporal': () => killTemporal('kept', wakes),
    'server of Temporal with its data': async () => {
      await killTemporal('emptied', wakes)
      // As if so much time had passed: during an order a look is due after 5 minutes, and counts as lost a minute later.
      await db('domains')
        .where({ hostname })
        .update({ look_at: db.raw(`look_at - interval '6 minutes'`) })
    },
  }
  await ends[victim]()
  return worker
}
