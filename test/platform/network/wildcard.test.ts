import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { domainsCommand } from '../../../cli/domains/domains.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { servingApp, testDomainPlatform } from '../../kit/platform/domain-platform.ts'
import { askPacket } from '../../kit/servers/dns.ts'
import { askHttps } from '../../kit/servers/https.ts'

// The certificate of all applications: the platform's own name, the name server of ACME_DNS_DOMAIN, and an authority that asks it.

const [appsDomain, zone] = ['apps.berth.dev', 'acme.berth.dev']
const wildcard = `*.${appsDomain}`
const stage = testDomainPlatform({ own: { APPS_DOMAIN: appsDomain, ACME_DNS_DOMAIN: zone } })

/** What `berth domains explain` says of the wildcard. */
async function explained() {
  const { platform } = await stage()
  const { stdout } = await operatorHere(
    [domainsCommand],
    platform.base.settings,
    'domains',
    'explain',
    wildcard,
    '--json',
  )
  return stdout ? JSON.parse(stdout) : null
}

/** Of its current certificate. */
async function certificateSerial(): Promise<string | undefined> {
  const { platform } = await stage()
  return (await platform.db('certificates').where({ hostname: wildcard, state: 'current' }).first('serial'))?.serial
}

test.serial(
  'every application is served by https with the certificate of its domain, once its operator has set one record',
  async t => {
    t.timeout(180_000)
    const { platform, dns, dnsPort, pebble } = await stage()
    const { api, base, until } = platform
    const retry = () => operatorHere([domainsCommand], base.settings, 'domains', 'retry', wildcard)
    const record = await until(async () => (await explained())?.challenge, 60, 'the record to set')
    t.is(record.type, 'cname')
    t.is(record.name, `_acme-challenge.${appsDomain}`)
    dns.delegate(zone, null)
    dns.set(record.name, 'CNAME', record.value)
    await retry()
    await until(async () => (await explained()).code === 'answerMissing', 60, 'why it waits')
    t.regex((await explained()).summary, /no certificate: .* ACME_DNS_DOMAIN/)
    dns.delegate(zone, dnsPort)
    await retry()
    await until(certificateSerial, 90, 'the certificate')
    t.is((await explained()).code, null)
    const { delegated } = await platform.db('domains').where({ hostname: wildcard }).first('delegated')
    t.true(delegated, 'the record is seen, and not shown as missing for the next order')
    const { app } = await servingApp(platform, (await api.makeUser()).id, 'any of them')
    const host = `${app.subdomain}.${appsDomain}`
    const served = () => askHttps(base.proxy.tlsPort, host, root).catch(() => null)
    const root = await pebble.root()
    await until(async () => (await served())?.status === 200, 30, host)
    t.is((await served())?.body, '<title>any of them</title>')
  },
)

test.serial('strangers who ask the name server without end keep no answer from the authority', async t => {
  t.timeout(240_000)
  const { platform, dnsPort } = await stage()
  let asks = true
  const stranger = (async () => {
    const questions = [{ name: `stranger.${zone}`, type: 'TXT' as const }]
    while (asks) await Promise.all([askPacket(dnsPort, { type: 'query', id: 1, questions }), sleep(50)])
  })()
  t.teardown(() => {
    asks = false
    return stranger
  })
  for (let renewals = 0; renewals < 2; renewals++) {
    const before = await certificateSerial()
    await platform.db('certificates').where({ hostname: wildcard }).update({ renew_at: new Date() })
    await operatorHere([domainsCommand], platform.base.settings, 'domains', 'retry', wildcard)
    await platform.until(async () => (await certificateSerial()) !== before, 60, 'a renewal')
  }
  t.deepEqual(
    (await explained()).events.filter(({ text }: { text: string }) => /refused|interrupted/.test(text)),
    [],
  )
})
