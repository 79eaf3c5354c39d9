import test, { type ExecutionContext } from 'ava'
import { auditCommand } from '../../../cli/audit.ts'
import { certificatesCommand, domainsCommand } from '../../../cli/domains/domains.ts'
import { loadInstallation } from '../../../cli/installation/installation.ts'
import {
  ensureRequest,
  recordOrder,
  recordOrderFailure,
  storeCertificate,
  takeOrder,
} from '../../../db/domains/certificates.ts'
import { recordLook } from '../../../db/domains/domain-looks.ts'
import { assignDomain, findDomain } from '../../../db/domains/domains.ts'
import { recordNotServed, recordServed } from '../../../db/domains/served-certificates.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { ownFolder } from '../../kit/folders.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const proved = { txtSeen: true, cnameSeen: false, points: true, delegated: false, problem: null }
const days = (count: number) => new Date(Date.now() + count * 86_400_000)
const authority = 'https://authority.example/directory'

/** An account with an application that has a domain. */
async function scene(t: ExecutionContext, hostname: string, more: Record<string, string> = { EDGE_TLS: 'local' }) {
  const { db, url } = await database
  const make = rows(db)
  await make.host('h1')
  const ana = await make.user()
  const { app } = await make.app(ana.id)
  const settings = { DATABASE_URL: url, BERTH_DATA: ownFolder(t), TEMPORAL_ADDRESS: '127.0.0.1:9', ...more }
  const { config } = loadInstallation({ ...settings, BERTH_MASTER_KEY: '00'.repeat(32) })
  await assignDomain(db, { app: { id: app.id, owner_id: ana.id }, hostname, plans: defaultPlans })
  const run = (...args: string[]) =>
    operatorHere([domainsCommand, certificatesCommand, auditCommand], settings, ...args)
  const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout)

  async function certify(lasts = 90, { renewIn = (lasts * 2) / 3, isServed = true } = {}) {
    const order = (await takeOrder(db, { hostname, registered: hostname, authority }))!
    await recordOrder(db, order.id, {
      order_url: `${authority}/1`,
      challenge: 'http-01',
      dns_value: null,
      order_ends_at: null,
    })
    await ensureRequest(db, config.sealKeys, order.id, async () => ({ privateKey: 'PEM', csr: Buffer.from('csr') }))
    const dates = { notBefore: days(0), notAfter: days(lasts), renewAt: days(renewIn) }
    await storeCertificate(db, order.id, { chain: 'PEM', issuer: 'Pebble', serial: '1f', ...dates })
    if (isServed) await recordServed(db, order.id)
  }
  return { db, ana, app, run, json, certify }
}

test.serial('a name is listed with what it waits for, and explained with the records that prove it', async t => {
  const hostname = 'waits.shop.dev'
  const { ana, app, run, json } = await scene(t, hostname)
  const { stdout } = await run('domains', 'list')
  t.regex(stdout, /^DOMAIN +OWNER +APPS +NEXT CHECK +STATE\n/)
  t.regex(stdout, new RegExp(`^${hostname} +${ana.id} +1 +now +waits for its DNS record; lapses `, 'm'))
  t.like(
    (await json('domains')).find((one: { hostname: string }) => one.hostname === hostname),
    {
      ...{ owner_id: ana.id, apps: [app.id], state: 'waiting', certificate: null, proved_at: null },
    },
  )
  const explained = (await run('domains', 'explain', ' Waits.Shop.dev. ')).stdout
  t.regex(explained, /WAITING: waits for its DNS record/)
  t.regex(explained, /Its owner sets one of the records below; then: berth domains retry waits.shop.dev/)
  t.regex(explained, /CNAME {2}waits.shop.dev {2}custom-[0-9a-f]{20}\.apps\.localhost/)
  t.regex(explained, /TXT {2}_berth.waits.shop.dev {2}berth-verify=[0-9a-f]{32}/)
  t.regex(explained, /Its workflow is not running/)
  t.regex(explained, new RegExp(`set on application ${app.id}`))
  t.regex((await run('domains', 'explain', 'nobody.dev')).stderr, /There is no domain "nobody.dev"/)
})

test.serial('why a certificate is missing is said, with the next try and the remedy', async t => {
  const hostname = 'refused.shop.dev'
  const { db, run, json } = await scene(t, hostname)
  await recordLook(db, (await findDomain(db, hostname))!, proved)
  const order = (await takeOrder(db, { hostname, registered: 'shop.dev', authority }))!
  await recordOrderFailure(db, (await findDomain(db, hostname))!, {
    order,
    code: 'dns',
    message: 'No valid A records',
    orderAt: days(1),
    refused: true,
  })
  const { stdout } = await run('domains', 'list')
  t.regex(stdout, /refused\.shop\.dev .*no certificate: No valid A records; next try /)
  const explained = (await run('domains', 'explain', hostname)).stdout
  t.regex(explained, /dns: No valid A records/)
  t.regex(explained, /Once the cause is fixed: berth domains retry refused\.shop\.dev/)

  const retried = await run('domains', 'retry', hostname)
  t.regex(retried.stdout, /Checking refused\.shop\.dev now/)
  const row = (await findDomain(db, hostname))!
  t.true(row.order_at <= new Date() && row.look_at <= new Date(), 'an order may begin now')
  t.like((await json('audit'))[0], { action: 'domains.retry', resource: hostname })
})

test.serial(
  'without https a name that is proved is not failing, and one of another script is found as it is typed',
  async t => {
    const hostname = 'xn--bcher-kva.shop.dev'
    const { db, run } = await scene(t, hostname, { EDGE_TLS: 'off' })
    const problem = { code: 'notPointing', message: 'It does not lead here yet.' }
    await recordLook(db, (await findDomain(db, hostname))!, { ...proved, points: false, problem })
    const { stdout } = await run('domains', 'explain', 'Bücher.shop.dev')
    t.regex(stdout, /HTTP: http, EDGE_TLS is off\./)
    t.regex(stdout, /notPointing: It does not lead here yet/)
  },
)

test.serial('certificates are listed, the one that expires first at the top', async t => {
  const [late, soon] = [await scene(t, 'late.shop.dev'), await scene(t, 'soon.shop.dev')]
  await recordLook(late.db, (await findDomain(late.db, 'late.shop.dev'))!, proved)
  await late.certify(90)
  await soon.certify(6)
  const { stdout } = await late.run('certificates', 'list')
  const day = (date: Date) => date.toISOString().slice(0, 10)
  t.regex(stdout, new RegExp(`soon\\.shop\\.dev +Pebble +${day(days(6))} +${day(days(4))} +have it`))
  t.true(stdout.indexOf('soon.shop.dev') < stdout.indexOf('late.shop.dev'))
  const [first] = await late.json('certificates')
  t.like(first, { hostname: 'soon.shop.dev', issuer: 'Pebble', orders_failed: 0, next_try_at: null })
  t.regex((await late.run('domains', 'list')).stdout, /late\.shop\.dev .*https, certificate until/)
})

test.serial(
  'a renewal that is due and gets no answer is failing, with the next try and why, and one that is not due is none',
  async t => {
    const hostname = 'unanswered.shop.dev'
    const { db, run, json, certify } = await scene(t, hostname)
    const shown = async () => {
      const of = ({ hostname: name }: { hostname: string }) => name === hostname
      return { domain: (await json('domains')).find(of), certificate: (await json('certificates')).find(of) }
    }
    const failure = { code: 'unreachable', message: 'The authority does not answer', orderAt: days(1), order: null }
    await recordLook(db, (await findDomain(db, hostname))!, proved)
    await certify(90)
    await recordOrderFailure(db, (await findDomain(db, hostname))!, { ...failure, refused: false })
    t.like(await shown(), { domain: { state: 'secured' }, certificate: { next_try_at: null } })

    await db('certificates').where({ hostname }).update({ renew_at: new Date() })
    t.like(await shown(), {
      domain: { state: 'failing', orders_failed: 0 },
      certificate: { next_try_at: failure.orderAt.toISOString(), message: failure.message },
    })
    t.regex((await run('domains')).stdout, /unanswered.* no new certificate: The authority does not answer; next try /)
    t.regex((await run('certificates')).stdout, /unanswered.* have it +[-0-9]+ [0-9:]+Z: The authority does not answer/)
  },
)

test.serial('a renewal that waits for a record is failing once it is an hour late', async t => {
  const hostname = 'awaited.shop.dev'
  const { db, run, certify } = await scene(t, hostname)
  await recordLook(db, (await findDomain(db, hostname))!, proved)
  await certify(90)
  const dueFor = (minutes: number) =>
    db('certificates')
      .where({ hostname })
      .update({ renew_at: new Date(Date.now() - minutes * 60_000) })
  await dueFor(50)
  t.regex((await run('domains')).stdout, /awaited.* https, certificate until/)
  await dueFor(70)
  t.regex((await run('domains')).stdout, /awaited.* no new certificate: Its order waits for a record in DNS/)
})

test.serial('a certificate that the proxies do not have is failing, and says what to do', async t => {
  const hostname = 'unserved.shop.dev'
  const { db, run, certify } = await scene(t, hostname)
  await recordLook(db, (await findDomain(db, hostname))!, proved)
  await certify(90, { isServed: false })
  const explained = async () => (await run('domains', 'explain', hostname)).stdout
  t.regex(await explained(), /FAILING: its certificate is not served: The proxies do not have it yet\./)
  await recordNotServed(db, (await findDomain(db, hostname))!, new Date())
  t.regex(await explained(), /FAILING: its certificate is not served: Not every proxy has confirmed/)
  t.regex(await explained(), /berth logs worker/)
  t.regex((await run('certificates')).stdout, /unserved.* not yet +.*Not every proxy has confirmed the certificate/)
})

test.serial('a release takes the name off its applications, and is in the audit record of its account', async t => {
  const hostname = 'released.shop.dev'
  const { db, ana, app, run, json } = await scene(t, hostname)
  await run('domains', 'release', hostname, '--yes')
  t.is(await findDomain(db, hostname), undefined)
  t.is((await db('apps').where({ id: app.id }).first()).custom_domain, null)
  t.like((await json('audit', '--user', ana.id))[0], { action: 'domains.release', resource: hostname })
})
