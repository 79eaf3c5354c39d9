import { randomBytes } from 'node:crypto'
import test from 'ava'
import { domainRecords } from '../../../../activities/dns/domain-records.ts'
import { resolverDns } from '../../../../activities/dns/resolver.ts'
import { recordOrder, takeOrder } from '../../../../db/domains/certificates.ts'
import { recordLook } from '../../../../db/domains/domain-looks.ts'
import { assignDomain, findDomain } from '../../../../db/domains/domains.ts'
import { defaultPlans } from '../../../../policy/accounts/plans.ts'
import { domainRecordKey, proofRecords } from '../../../../policy/domains/records.ts'
import { masterKey, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { TestDns } from '../../../kit/servers/dns.ts'

const dns = TestDns.start()
const woken: string[] = []
const started = dns.then(({ address }) => resolverDns([address]))
const api = testApi({
  services: ({ config }) => ({
    domainRecords: domainRecords({ look: async (...question) => (await started).look(...question) }, config),
    domains: {
      wake: async hostname => {
        woken.push(hostname)
      },
    },
  }),
})
test.after.always('stop the name server', async () => (await dns).stop())

async function make({ plan = 'standard-4', apps = 1 } = {}) {
  const user = await api().makeUser({ plan })
  const made = []
  for (let count = 0; count < apps; count++)
    made.push(await api().makeApp(user, { memoryMb: 256, subdomain: `s-${randomBytes(6).toString('hex')}` }))
  const ids = made.map(({ id }) => id)
  const as = api().as(user)
  return {
    ...{ user, ids, apps: made, as },
    set: (custom: unknown, id = ids[0]) => as.post(`/v2/apps/${id}/network/custom`, JSON.stringify({ custom })),
    records: (id = ids[0]) => as.get(`/v2/apps/${id}/network/dns`),
    custom: async (id = ids[0]) => (await as.get(`/v2/apps/${id}`)).body.response.custom,
  }
}

const recordsOf = ({ id }: TestUser, hostname: string) =>
  proofRecords(domainRecordKey(masterKey), { accountId: id, hostname }, api().services.config.appsDomain)

const proved = { txtSeen: true, cnameSeen: false, points: true, delegated: false, problem: null }

test('a domain is set in its canonical form, shown with the records that prove it, and removed', async t => {
  const { user, set, records, custom, ids } = await make()
  t.is((await records()).body.code, 'NO_CUSTOM_DOMAIN')
  t.is((await set(' Shop.BÜCHER.dev. ')).status, 200)
  const hostname = 'shop.xn--bcher-kva.dev'
  t.is(await custom(), hostname)
  t.true(woken.includes(hostname))
  const { txt, cname } = recordsOf(user, hostname)
  t.deepEqual((await records()).body.response, [
    { ...txt, status: 'pending' },
    { ...cname, status: 'pending' },
  ])
  t.regex(cname.value, /^custom-[0-9a-f]{20}\.apps\.localhost$/)
  const statuses = async (look: object) => {
    await recordLook(api().db, (await findDomain(api().db, hostname))!, { ...proved, ...look })
    api().services.dnsRecords.clear()
    return (await records()).body.response.map((record: { status: string }) => record.status)
  }
  t.deepEqual(await statuses({}), ['active', 'active'])
  t.deepEqual(
    await statuses({ txtSeen: false, cnameSeen: true }),
    ['pending', 'active'],
    'removed, and proved by the other',
  )
  t.is((await set('@')).status, 200)
  t.is((await set('@')).status, 200, 'removing nothing is success')
  t.is(await custom(), null)
  t.is(await api().db('domains').where({ hostname }).first(), undefined)
  t.is((await api().as(user).get(`/v2/apps/${ids[0]}/network/dns`)).body.code, 'NO_CUSTOM_DOMAIN')
})

test('records of a domain that another account has just taken over are not shown to the former one', async t => {
  const { set, records } = await make()
  const other = await make()
  await set('lost.shop.dev')
  await api().db('domains').where({ hostname: 'lost.shop.dev' }).update({ owner_id: other.user.id })
  t.deepEqual((await records()).body.response, [])
})

test('records are those of the present domain, also right after it was changed', async t => {
  const { set, records, ids, user } = await make()
  const names = async () => [...new Set((await records()).body.response.map(({ name }: { name: string }) => name))]
  await set('one.shop.dev')
  t.deepEqual(await names(), ['_berth.one.shop.dev', 'one.shop.dev'])
  await set('two.shop.dev')
  t.deepEqual(await names(), ['_berth.two.shop.dev', 'two.shop.dev'])
  const app = { id: ids[0]!, owner_id: user.id }
  await assignDomain(api().db, { app, hostname: 'three.shop.dev', plans: defaultPlans })
  t.deepEqual(await names(), ['_berth.three.shop.dev', 'three.shop.dev'], 'by another process')
})

test('an owner is asked for the answer to a challenge in DNS only while requests do not arrive here', async t => {
  const { set, records } = await make()
  const hostname = 'moving.shop.dev'
  await set(hostname)
  const { db, services } = api()
  const order = (await takeOrder(db, { hostname, registered: 'shop.dev', authority: 'a' }))!
  const order_url = 'https://a.test/1'
  await recordOrder(db, order.id, { order_url, challenge: 'http-01', dns_value: 'answer', order_ends_at: null })
  const asked = async (points: boolean) => {
    await recordLook(db, (await findDomain(db, hostname))!, { ...proved, points })
    services.dnsRecords.clear()
    return (await records()).body.response.some(({ value }: { value: string }) => value === 'answer')
  }
  t.true(await asked(false))
  t.false(await asked(true))
})

test('a reserved or malformed name is refused with its code, and changes nothing', async t => {
  const { set, custom } = await make()
  const refused = {
    INVALID_DOMAIN: ['', 'shop', 'shop..dev', '-a.dev', '1.2.3.4', '*.shop.dev', 'https://shop.dev', 'shop.dev:80', 7],
    RESERVED_DOMAIN: ['x.apps.localhost', 'api.localhost', 'co.uk', 'github.io', 'printer.local'],
  }
  for (const [code, names] of Object.entries(refused))
    for (const name of names) {
      const { status, body } = await set(name)
      t.deepEqual([status, body.code], [400, code], String(name))
    }
  t.is(await custom(), null)
})

test('a program without an address, and a plan without custom domains, are refused', async t => {
  const user = await api().makeUser()
  const program = await api().makeApp(user, { subdomain: null })
  const path = `/v2/apps/${program.id}/network/custom`
  t.is(
    (
      await api()
        .as(user)
        .post(path, JSON.stringify({ custom: 'a.shop.dev' }))
    ).body.code,
    'INVALID_DOMAIN',
  )
  const { set } = await make({ plan: 'hobby-1' })
  const { status, body } = await set('b.shop.dev')
  t.deepEqual([status, body.code], [403, 'UPGRADE_REQUIRED'])
  await (await make()).set('held.shop.dev')
  const held = await set('held.shop.dev')
  t.deepEqual([held.status, held.body.code], [403, 'UPGRADE_REQUIRED'], 'it does not say that somebody has the name')
  const names = (await dns).questions.map(({ name }) => name)
  t.false(
    names.some(name => name.includes('held.shop.dev')),
    'DNS is not asked',
  )
})

test('a name of another account changes hands only with the proof that the contract demands', async t => {
  const server = await dns
  const hostname = 'taken.shop.dev'
  const [ana, ben] = [await make(), await make()]
  t.is((await ana.set(hostname)).status, 200)
  const [anas, bens] = [recordsOf(ana.user, hostname), recordsOf(ben.user, hostname)]
  const refused = async (why: string) => {
    const { status, body } = await ben.set(hostname)
    t.deepEqual([status, body.code], [409, 'DOMAIN_ALREADY_EXISTS'], why)
    t.true(body.message.includes(bens.txt.value), 'names the record to set')
    t.false(JSON.stringify(body).includes(ana.user.id))
    t.is(await ana.custom(), hostname)
  }
  await refused('no record')
  await recordLook(api().db, (await findDomain(api().db, hostname))!, proved)
  server.set(bens.cname.name, 'CNAME', bens.cname.value)
  await refused('a CNAME alone may be a leftover')
  server.set(bens.cname.name, 'CNAME', anas.cname.value)
  server.set(bens.txt.name, 'TXT', bens.txt.value)
  await refused('the holder’s record is still there')
  server.misbehave(bens.txt.name, 'SERVFAIL')
  server.set(bens.cname.name, 'CNAME')
  const { status, body } = await ben.set(hostname)
  t.deepEqual([status, body.code], [502, 'DNS_FAILED'])
  server.misbehave(bens.txt.name, null)
  t.is((await ben.set(hostname)).status, 200)
  t.is(await ben.custom(), hostname)
  t.is(await ana.custom(), null)
})

test('host names are listed, custom ones first; two applications with one name are a load balancer', async t => {
  const { user, as, set, ids, apps } = await make({ apps: 3 })
  for (const id of ids.slice(1)) t.is((await set('group.shop.dev', id)).status, 200)
  const { response } = (await as.get('/v2/apps/domains')).body
  t.deepEqual(response, [
    ...ids.slice(1).map(app_id => ({ app_id, hostname: 'group.shop.dev', type: 'custom' })),
    ...apps.map(({ id, subdomain }) => ({
      ...{ app_id: id, hostname: `${subdomain}.apps.localhost`, type: 'subdomain' },
    })),
  ])
  const balancers = await as.get('/v2/apps/load-balancers')
  t.deepEqual(balancers.body.response, {
    limit: 2,
    balancers: [
      {
        hostname: 'group.shop.dev',
        apps: apps.slice(1).map(({ id, name, host_id: cluster }) => ({ id, name, cluster })),
      },
    ],
  })
  const { key } = await api().makeKey(user, { scopes: ['apps:read'], resources: [ids[1]!] })
  const narrow = await api().as(key).get('/v2/apps/domains')
  t.deepEqual([...new Set(narrow.body.response.map(({ app_id }: { app_id: string }) => app_id))], [ids[1]])
})

test('a load balancer beyond the plan is refused', async t => {
  const { set, ids } = await make({ apps: 6 })
  for (const [index, id] of ids.entries()) {
    const { status, body } = await set(`n${index % 3}.shop.dev`, id)
    t.deepEqual([status, body.code], index < 5 ? [200, undefined] : [403, 'LOAD_BALANCER_LIMIT_REACHED'])
  }
})

test('a purge is answered 500 while no proxy lives, and is stored', async t => {
  const { as, ids } = await make()
  const { status, body } = await as.post(`/v2/apps/${ids[0]}/network/purge_cache`)
  t.deepEqual([status, body.code], [500, 'PURGE_CACHE_FAILED'])
  t.is((await api().db('apps').where({ id: ids[0] }).first()).cache_version, 1)
})
