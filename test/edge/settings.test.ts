import { createHash } from 'node:crypto'
import { request } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { control } from '../../activities/edge/control-socket.ts'
import type { ServedSettings } from '../../activities/edge/port.ts'
import { unusedPort } from '../../cli/installation/ports.ts'
import { unset } from '../contracts/edge/settings.ts'
import { askHttps, testIssuer } from '../kit/servers/https.ts'
import { ask, named } from '../kit/servers/origin.ts'
import { startProxy, statusOfLine, type TestProxy } from '../kit/servers/proxy.ts'

const address = '127.0.0.1'
let proxy: TestProxy
const issuer = testIssuer()

test.before(async () => {
  proxy = await startProxy({ EDGE_TLS: 'local' })
})
test.after.always(() => proxy?.stop())

/** An application that answers with its label at a name of the test's own, with a function that changes what it has set. */
async function app(t: ExecutionContext, label: string, on = proxy) {
  const id = `${label}-${createHash('sha256').update(t.title).digest('hex').slice(0, 8)}`
  const host = `${id}.apps.localhost`
  const origin = await named(label)
  t.teardown(origin.stop)
  const route = { host, appId: id, address, port: origin.port }
  await on.edge.setRoute(route)
  let version = 0
  return {
    host,
    member: `${host}@${id}`,
    route,
    set: (changes: Partial<ServedSettings>) =>
      on.edge.setSettings({ ...unset, host, appId: id, version: String(++version), ...changes }),
    get: (from?: string, name = host) => ask(on.port, name, from ? { from } : {}),
  }
}

test('requests of blocked addresses are refused, and all others are not', async t => {
  const { get, set, host } = await app(t, 'one')
  const cases: [networks: string[], from: string, isBlocked: boolean][] = [
    [['127.0.0.5'], '127.0.0.5', true],
    [['127.0.0.5'], '127.0.0.6', false],
    [['127.0.1.0/24'], '127.0.1.255', true],
    [['127.0.1.0/24'], '127.0.2.0', false],
    [['10.0.0.0/8', '127.0.0.128/25', '2001:db8::/32'], '127.0.0.128', true],
    [['10.0.0.0/8', '127.0.0.128/25', '2001:db8::/32'], '127.0.0.127', false],
    [['127.16.0.0/12'], '127.31.255.255', true],
    [['127.16.0.0/12'], '127.32.0.0', false],
    [['0.0.0.0/0'], '127.9.9.9', true],
    [['::/0'], '127.9.9.9', false],
    [[], '127.0.0.5', false],
  ]
  for (const [blockedNetworks, from, isBlocked] of cases) {
    await set({ blockedNetworks })
    const { status, body, headers } = await get(from)
    t.is(status, isBlocked ? 403 : 200, `${from} with ${blockedNetworks}`)
    if (isBlocked) t.regex(body, new RegExp(`${host} does not accept requests from your network`))
    if (isBlocked) t.is(headers['cache-control'], 'no-store')
  }
  const lines = (await proxy.accessLog(1)).filter(line => line.host === host && line.status === 403)
  t.true(lines.length > 0 && lines.every(({ app, mitigated }) => String(app).startsWith('one-') && mitigated === true))
})

test('on a socket of both families IPv4 addresses are blocked and counted as such', async t => {
  const both = await startProxy({ EDGE_BIND: '::', EDGE_CONNECTIONS_PER_ADDRESS: '1' })
  t.teardown(both.stop)
  const { get, set, host } = await app(t, 'one', both)
  await set({ blockedNetworks: ['127.0.0.5'] })
  t.is((await get('127.0.0.5')).status, 403)
  t.is((await get('127.0.0.6')).status, 200)
  const held = request({ port: both.port, host: address, localAddress: '127.0.0.7', method: 'POST', headers: { host } })
  t.teardown(() => held.destroy())
  held.on('error', () => {}).write('held open')
  let status = 200
  for (let look = 0; look < 200 && status === 200; look++) status = (await get('127.0.0.7')).status
  t.is(status, 429, 'its own second connection')
  t.is((await get('127.0.0.8')).status, 200, 'the first of another address')
})

test('an address has a number of requests in a minute, and other addresses have their own', async t => {
  const { get, set } = await app(t, 'one')
  const other = await app(t, 'two')
  await set({ requestsPerMinute: 3 })
  const answers = []
  // A new minute may begin meanwhile, once.
  for (let n = 0; n < 7; n++) answers.push(await get('127.0.0.5'))
  const refused = answers.filter(({ status }) => status !== 200)
  t.true(refused.length >= 1 && refused.length <= 4, `${refused.length} of 7`)
  for (const { status, body, headers } of refused) {
    t.is(status, 429)
    t.regex(body, /accepts no more requests from your network this minute/)
    t.true(Number(headers['retry-after']) >= 1 && Number(headers['retry-after']) <= 60, headers['retry-after'])
  }
  t.is((await get('127.0.0.6')).status, 200)
  t.is((await other.get('127.0.0.5')).status, 200)
  await set({})
  t.is((await get('127.0.0.5')).status, 200)
})

test('maintenance closes an application, also while it is stopped, and shows its page', async t => {
  const { get, set, host, route } = await app(t, 'one')
  await set({ maintenance: true })
  const closed = await get()
  t.like(closed, { status: 503 })
  t.regex(closed.body, /is closed for maintenance/)
  t.is(closed.headers['retry-after'], '60')
  const page = '<!doctype html><title>"Später"\u0000</title>'
  await set({ maintenance: true, pages: { maintenance: page, error: '<p>error' } })
  t.like(await get(), { status: 503, body: page })
  t.is((await get()).headers['content-type'], 'text/html; charset=utf-8')
  await proxy.edge.setRoute({ ...route, port: 0 })
  t.like(await get(), { status: 503, body: page })
  await proxy.edge.removeRoute(host)
  t.like(await get(), { status: 503, body: page })
  const lines = (await proxy.accessLog(1)).filter(line => line.host === host && line.status === 503)
  t.true(lines.length > 0 && lines.every(({ mitigated }) => mitigated === true))
  await set({ pages: { maintenance: page, error: null } })
  t.is((await get()).status, 404, 'open again, and without a route there is no application')
  await proxy.edge.setRoute(route)
  t.is((await get()).body, 'one')
})

test('of the members of a custom name those answer that are open; when none is, it is closed', async t => {
  const [one, two] = [await app(t, 'one'), await app(t, 'two')]
  const host = 'settings-group.example.org'
  await proxy.edge.setName({ host, members: [one.member, two.member] })
  await one.set({ maintenance: true, pages: { maintenance: 'of one', error: null } })
  for (let n = 0; n < 10; n++) t.is((await one.get(undefined, host)).body, 'two')
  await two.set({ maintenance: true, pages: { maintenance: 'of two', error: null } })
  for (let n = 0; n < 5; n++) t.regex((await one.get(undefined, host)).body, /^of (one|two)$/)
  for (const { host: route } of [one, two]) await proxy.edge.removeRoute(route)
  t.is((await one.get(undefined, host)).status, 503)
  await one.set({})
  await two.set({})
  t.is((await one.get(undefined, host)).status, 404)
})

test('limits and blocks of a member that is closed are not those of the others', async t => {
  const [one, two] = [await app(t, 'one'), await app(t, 'two')]
  const host = 'settings-limits.example.org'
  await proxy.edge.setName({ host, members: [one.member, two.member] })
  await one.set({ maintenance: true, requestsPerMinute: 1, blockedNetworks: ['127.0.0.5'] })
  for (let n = 0; n < 10; n++) t.is((await one.get('127.0.0.5', host)).body, 'two')
  t.is((await one.get('127.0.0.5')).status, 503, 'closed for every address')
})

test('a member that is closed for maintenance gets no second try, and its page is not that of the others', async t => {
  const [one, two, three] = [await app(t, 'one'), await app(t, 'two'), await app(t, 'three')]
  const host = 'settings-failover.example.org'
  await proxy.edge.setName({ host, members: [one.member, two.member, three.member] })
  await two.set({ maintenance: true, pages: { maintenance: 'of two', error: null } })
  const away = await unusedPort()
  await proxy.edge.setRoute({ ...one.route, port: away })
  for (let n = 0; n < 20; n++) t.is((await one.get(undefined, host)).body, 'three')
  await proxy.edge.setRoute({ ...three.route, port: away })
  await three.set({ pages: { error: 'of three', maintenance: null } })
  await one.set({ pages: { error: 'of one', maintenance: null } })
  for (let n = 0; n < 5; n++) {
    const { status, body, headers } = await one.get(undefined, host)
    t.is(status, 502)
    t.regex(body, /^of (one|three)$/)
    t.is(headers['retry-after'], '2')
  }
})

test('a request does not turn to a member that has blocked its address', async t => {
  const [one, two] = [await app(t, 'one'), await app(t, 'two')]
  const host = 'settings-turn.example.org'
  await proxy.edge.setName({ host, members: [one.member, two.member] })
  await proxy.edge.setRoute({ ...one.route, port: await unusedPort() })
  await two.set({ blockedNetworks: ['127.0.0.5'] })
  const statuses = new Set<number>()
  for (let n = 0; n < 20; n++) statuses.add((await one.get('127.0.0.5', host)).status)
  t.false(statuses.has(200), [...statuses].join(' '))
  t.is((await one.get('127.0.0.6', host)).body, 'two')
})

test('settings of another application at the same host name do not count', async t => {
  const { get, set, member, route } = await app(t, 'one')
  const host = 'settings-stale.example.org'
  await proxy.edge.setName({ host, members: [member] })
  const pages = { error: 'of before', maintenance: 'of before' }
  await set({ appId: 'before', maintenance: true, pages })
  t.is((await get()).body, 'one')
  t.is((await get(undefined, host)).body, 'one')
  await proxy.edge.setRoute({ ...route, port: 0 })
  t.notRegex((await get()).body, /of before/)
})

test('the error page is shown while the application is not reachable, and for nothing else', async t => {
  const { get, set, host, route } = await app(t, 'one')
  await set({ pages: { error: 'Back soon.', maintenance: null } })
  t.like(await get(), { status: 200, body: 'one' })
  await proxy.edge.setRoute({ ...route, port: await unusedPort() })
  const { status, body, headers } = await get()
  t.deepEqual([status, body], [502, 'Back soon.'])
  t.regex(String(headers['x-request-id']), /^[\w-]+$/)
  await proxy.edge.setRoute({ ...route, port: 0 })
  t.like(await get(), { status: 503, body: 'Back soon.' })
  await set({ blockedNetworks: ['127.0.0.5'], pages: { error: 'Back soon.', maintenance: null } })
  t.notRegex((await get('127.0.0.5')).body, /Back soon/)
  await set({})
  t.regex((await get()).body, new RegExp(`${host} exists, but cannot accept requests`))
})

test('Strict-Transport-Security is sent over https only, in every answer of the application', async t => {
  const { root, issue } = await issuer
  const { get, set, host, route } = await app(t, 'one')
  await proxy.edge.setCertificate(await issue(host))
  const strict = 'strict-transport-security'
  const over = async (path = '/') => (await askHttps(proxy.tlsPort, host, root, { path })).headers[strict]
  t.is(await over(), undefined)
  await set({ hsts: 'max-age=31536000; includeSubDomains' })
  t.is(await over(), 'max-age=31536000; includeSubDomains')
  t.is((await get()).headers[strict], undefined)
  await proxy.edge.setRoute({ ...route, port: await unusedPort() })
  t.is(await over(), 'max-age=31536000; includeSubDomains', 'also in pages of the proxy')
  await set({ hsts: 'max-age=0' })
  t.is(await over(), 'max-age=0')
})

test('settings whose page is missing or of another version are listed as outdated, and show no page', async t => {
  const { get, set, host } = await app(t, 'one')
  const post = (body: string) =>
    control(proxy.config.edge.controlSocket, { method: 'POST', path: '/pages', body, Refused: Error })
  const listed = async () => (await proxy.edge.listSettings([host]))[0]?.version
  await set({ maintenance: true, pages: { maintenance: 'of one', error: null } })
  t.is(await listed(), '1')
  await post(JSON.stringify({ page: `maintenance ${host}`, version: '7', text: 'YQ==' }))
  t.is(await listed(), 'outdated')
  t.regex((await get()).body, /is closed for maintenance/)
  await post(JSON.stringify({ page: `maintenance ${host}`, removed: true }))
  t.is(await listed(), 'outdated')
  await set({ maintenance: true, pages: { maintenance: 'of one', error: null } })
  t.is(await listed(), '2')
  t.is((await get()).body, 'of one')
})

test('a change that finds no room leaves what was there', async t => {
  const post = (proof: string) =>
    control(proxy.config.edge.controlSocket, {
      ...{ method: 'POST', path: '/answers', Refused: RangeError },
      body: JSON.stringify({ kind: 'berth-check', proof }),
    })
  await post('small')
  await t.throwsAsync(post('x'.repeat(100_000)), { instanceOf: RangeError, message: /no memory/ })
  t.is((await ask(proxy.port, 'any.apps.localhost', { path: '/.well-known/berth-check/token' })).body, 'token.small')
})

test('settings and pages outlive a killed proxy', async t => {
  const own = await startProxy()
  t.teardown(own.stop)
  const { get, set, host } = await app(t, 'one', own)
  const removed = await app(t, 'two', own)
  await removed.set({ maintenance: true })
  await set({ maintenance: true, pages: { maintenance: 'kept', error: null } })
  await own.edge.removeSettings(removed.host)
  await own.kill('SIGKILL')
  await own.start()
  t.deepEqual(await own.edge.listSettings(), [{ host, version: '1' }])
  t.like(await get(), { status: 503, body: 'kept' })
  t.is((await removed.get()).body, 'two')
})

test('lines that are no settings or pages are refused by the proxy itself', async t => {
  const fields = {
    ...{ host: '"odd.apps.localhost"', appId: '"a"', version: '"1"', minTls: '"1.2"', hsts: '""', perMinute: '0' },
    ...{ maintenance: 'false', blocked: '[]', pages: '[]' },
  }
  const line = (changes: Partial<typeof fields>) =>
    `{${Object.entries({ ...fields, ...changes })
      .map(([key, value]) => `"${key}":${value}`)
      .join(',')}}`
  const changes: Partial<typeof fields>[] = [
    ...['"A"', '""', '"a b"', 'a'].map(host => ({ host })),
    ...['"1.1"', '"1.4"', '1.2', ''].map(minTls => ({ minTls })),
    ...['"max-age=1\\n"', '"a:b"', 'null'].map(hsts => ({ hsts })),
    ...['-1', '1.5', '"1"', 'null'].map(perMinute => ({ perMinute })),
    ...['1', 'null', '"true"', 'yes'].map(maintenance => ({ maintenance })),
    ...['[1]', 'null', '"error"'].map(pages => ({ pages })),
    ...['["0a/8"]', '["0a000000"]', '["0a000000/33"]', '["0a000000/8",]', '[0a000000/8]', 'null'].map(blocked => ({
      blocked,
    })),
  ]
  for (const change of changes) t.is(await statusOfLine(proxy, 'settings', line(change)), 422, line(change))
  t.is(await statusOfLine(proxy, 'settings', line({})), 204)
  await proxy.edge.removeSettings('odd.apps.localhost')
  const pages = [
    ...['error', 'error A', 'error a b'].map(page => `{"page":"${page}","version":"1","text":"YQ=="}`),
    ...['', '<p>', 'a b'].map(text => `{"page":"error a","version":"1","text":"${text}"}`),
    ...['{"page":"error a","text":"YQ=="}', '{"page":"error a"}', ''],
  ]
  for (const page of pages) t.is(await statusOfLine(proxy, 'pages', page), 422, page)
})
