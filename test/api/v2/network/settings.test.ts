import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { edgeSnapshot, recordEdge } from '../../../../db/domains/edges.ts'
import { defaultAppSettings } from '../../../../policy/network/app-settings.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'

const api = testApi()

async function make(of?: TestUser) {
  const user = of ?? (await api().makeUser({ plan: 'standard-4' }))
  const subdomain = `s-${randomBytes(6).toString('hex')}`
  const { id } = await api().makeApp(user, { memoryMb: 256, subdomain })
  const path = `/v2/apps/${id}/network/settings`
  const as = api().as(user)
  return {
    ...{ user, id, host: `${subdomain}.${api().services.config.appsDomain}` },
    read: async () => (await as.get(path)).body.response,
    change: (settings: unknown) => as.request('PATCH', path, { body: JSON.stringify(settings) }),
    purge: () => as.post(`/v2/apps/${id}/network/purge_cache`),
    row: () => api().db('app_settings').where({ app_id: id }).first(),
  }
}

const ofBytes = (bytes: number) => 'p'.repeat(bytes)

test('settings begin with their defaults, and a change leaves the others as they are', async t => {
  const { id, read, change, row } = await make()
  t.deepEqual(await read(), defaultAppSettings)
  t.is(await row(), undefined)
  const { status, body } = await change({ min_tls: '1.3', hsts: { enabled: true }, requests_per_minute: 600 })
  t.is(status, 200)
  const changed = {
    ...defaultAppSettings,
    ...{ min_tls: '1.3', requests_per_minute: 600 },
    hsts: { enabled: true, max_age: 31_536_000, include_subdomains: false },
  }
  t.deepEqual(body.response, { ...changed, applied: false })
  await change({ hsts: { max_age: 300 } })
  await change({ hsts: { max_age: 300 } })
  t.is((await api().db('audit').where({ resource: id })).length, 2, 'what was set before is no change')
  await change({ hsts: { include_subdomains: true } })
  changed.hsts = { enabled: true, max_age: 300, include_subdomains: true }
  await change({ maintenance: true, maintenance_page: '<h1>Ä</h1>', min_tls: null })
  t.deepEqual(await read(), { ...changed, maintenance: true, maintenance_page: '<h1>Ä</h1>' })
  const { version } = await row()
  await change({ maintenance: true })
  t.is((await row()).version, version, 'the same again is no change')
  await change({ maintenance: false })
  t.not((await row()).version, version)
  const { hsts } = defaultAppSettings
  await change({ min_tls: '1.2', hsts, requests_per_minute: 0, maintenance_page: '' })
  t.deepEqual(await read(), defaultAppSettings)
  t.is(await row(), undefined, 'an application at the defaults has no row')
})

test('networks are stored in their only form, each once', async t => {
  const { read, change } = await make()
  const given = ['203.0.113.7', ' 203.0.113.7/32 ', '10.1.2.3/8', '::FFFF:10.0.0.0/104', '2001:DB8:0:0::1', '::1/0']
  await change({ blocked_networks: given })
  t.deepEqual((await read()).blocked_networks, ['203.0.113.7', '10.0.0.0/8', '2001:db8::1', '::/0'])
})

test('an unknown setting is refused and changes nothing', async t => {
  const { read, change } = await make()
  const odd: unknown[] = [
    ...['1.1', '1', 1.3, true].map(min_tls => ({ min_tls })),
    ...[true, { enabled: 1 }, { enabled: true, max_age: -1 }, { enabled: true, max_age: 63_072_001 }].map(hsts => ({
      hsts,
    })),
    ...[-1, 1.5, '1', 1_000_001].map(requests_per_minute => ({ requests_per_minute })),
    ...['', 'x', '127.1', '10.0.0.0/33', '10.0.0.0/', '10.0.0.1 ,', '::1%lo', '::ffff:10.0.0.0/95', 7].map(network => ({
      blocked_networks: ['10.0.0.1', network],
    })),
    { blocked_networks: Array.from({ length: 101 }, (_, n) => `10.0.0.${n}`) },
    { blocked_networks: '10.0.0.1' },
    ...['on', 1].map(maintenance => ({ maintenance })),
    ...[ofBytes(16_385), 'ä'.repeat(8193), 7].map(error_page => ({ error_page })),
  ]
  for (const settings of odd) {
    const { status, body } = await change({ requests_per_minute: 5, ...(settings as object) })
    t.deepEqual([status, body.code], [400, 'INVALID_PARAMETERS'], JSON.stringify(settings).slice(0, 100))
  }
  t.is((await change({ error_page: 'a\0' })).body.code, 'INVALID_INPUT')
  for (const nothing of [{}, { min_tls: null }, { other: 1 }]) {
    const { status, body } = await change(nothing)
    t.deepEqual([status, body.code], [400, 'NO_UPDATE_DATA'])
  }
  t.deepEqual(await read(), defaultAppSettings)
})

test('all pages of an account are bounded together, also when they are set concurrently', async t => {
  const first = await make()
  const others = [await make(first.user), await make(first.user), await make(first.user)]
  const full = { error_page: ofBytes(16_384), maintenance_page: ofBytes(16_384) }
  t.is((await first.change(full)).status, 200)
  const outcomes = await Promise.all(others.map(({ change }) => change({ error_page: ofBytes(16_384) })))
  t.deepEqual(outcomes.map(({ status }) => status).sort(), [200, 200, 400])
  const refused = outcomes.find(({ status }) => status === 400)!
  t.is(refused.body.code, 'INVALID_PARAMETERS')
  t.regex(refused.body.message, /may have 65536 bytes together/)
  await first.change({ error_page: '' })
  const last = others[outcomes.indexOf(refused)]!
  t.is((await last.change({ error_page: ofBytes(16_384) })).status, 200)
  const stranger = await make()
  t.is((await stranger.change(full)).status, 200)
})

test.serial('a change, and a purge, say whether every live proxy has it', async t => {
  const { change, purge, host } = await make()
  const { db } = api()
  const edge = `edge-${randomBytes(4).toString('hex')}`
  t.teardown(() => db('edges').where({ id: edge }).delete())
  await recordEdge(db, edge, await edgeSnapshot(db))
  let running = true
  let refused: string[] = []
  const keeper = (async () => {
    for (; running; await sleep(20)) await recordEdge(db, edge, await edgeSnapshot(db), { refused })
  })()
  t.true((await change({ maintenance: true })).body.response.applied)
  t.is((await purge()).status, 200)
  refused = [host]
  await sleep(100)
  t.false((await change({ maintenance: true, min_tls: '1.3' })).body.response.applied, 'a proxy has refused it')
  t.is((await purge()).body.code, 'PURGE_CACHE_FAILED')
  running = false
  await keeper
  const late = await change({ maintenance: false })
  t.deepEqual([late.status, late.body.response.applied], [200, false])
})
