import test from 'ava'
import { unusedPort } from '../../cli/installation/ports.ts'
import { type SurfaceTargets, surfaceTargets } from '../../edge/surfaces.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ask, named, type Origin, startOrigin } from '../kit/servers/origin.ts'
import { startProxy } from '../kit/servers/proxy.ts'

const portsOf = ([base, blob, s3, files, open]: Origin[]) => ({
  base: base!.port,
  blob: blob!.port,
  s3: s3!.port,
  files: files!.port,
  public: open!.port,
})

test('each surface of the platform answers under its own name', async t => {
  const origins = await Promise.all(['api', 'blob', 's3', 'files', 'public'].map(named))
  const targets = surfaceTargets('0.0.0.0', [portsOf(origins)])
  const proxy = await startProxy({ BERTH_DOMAIN: 'berth.test', FILES_URL: 'https://files.strangers.test' }, () => ({
    targets,
  }))
  t.teardown(async () => {
    await proxy.stop()
    for (const origin of origins) await origin.stop()
  })
  for (const surface of ['api', 'blob', 's3', 'files', 'public'])
    t.is((await ask(proxy.port, `${surface}.berth.test`)).body, surface)
  t.is((await ask(proxy.port, 'bucket.s3.berth.test:80')).body, 's3')
  t.is((await ask(proxy.port, 'files.strangers.test')).body, 'files', 'a name of another domain, from its setting')
  t.is((await ask(proxy.port, 'berth.test')).status, 404)
})

test('of several API processes a dead one is skipped; with none the answer is an error in the envelope', async t => {
  const alive = await named('alive')
  const dead = await unusedPort()
  const all = [`127.0.0.1:${dead}`, `127.0.0.1:${alive.port}`]
  const none = [`127.0.0.1:${dead}`]
  const targets: SurfaceTargets = { api: all, blob: none, s3: none, files: none, public: none }
  const proxy = await startProxy({}, () => ({ targets }))
  t.teardown(async () => {
    await proxy.stop()
    await alive.stop()
  })
  for (let turn = 0; turn < 20; turn++)
    t.is((await ask(proxy.port, 'api.localhost', { method: 'POST', body: 'x' })).body, 'alive')
  const seen = await ask(proxy.port, 'blob.localhost')
  t.is(seen.status, 503)
  t.is(seen.headers['cache-control'], 'no-store')
  t.like(JSON.parse(seen.body), { status: 'error', code: 'PRIVATE_STORAGE_UNAVAILABLE' })
})

test('a refusal by the proxy itself has the format of the requested surface', async t => {
  const held: (() => void)[] = []
  const origin = await startOrigin((_, answer) => void held.push(() => answer.end('done')))
  const dead = [`127.0.0.1:${await unusedPort()}`]
  const [alive, away] = await Promise.all(
    [[`127.0.0.1:${origin.port}`], dead].map(all =>
      startProxy({ EDGE_CONNECTIONS_PER_ADDRESS: '1', RATE_LIMIT_SCALE: '1' }, () => ({
        targets: { api: all, blob: all, s3: all, files: all, public: all },
      })),
    ),
  )
  t.teardown(async () => {
    for (const proxy of [alive, away]) await proxy!.stop()
    await origin.stop()
  })
  const said = ({ status, headers, body }: Awaited<ReturnType<typeof ask>>) => {
    t.is(headers['cache-control'], 'no-store')
    t.truthy(headers['x-request-id'])
    const type = headers['content-type']?.split(';')[0]
    if (type === 'application/json') return [status, JSON.parse(body).code]
    return [status, type === 'application/xml' ? /<Code>(.*)<.Code>/.exec(body)?.[1] : type]
  }
  const one = ask(alive!.port, 'api.localhost')
  await comesTrue(() => held.length > 0)
  const malformed = { headers: { 'transfer-encoding': 'nonsense' } }
  const each: Record<string, unknown[]> = {}
  for (const surface of ['api', 'blob', 's3', 'files', 'public']) {
    const host = `${surface}.localhost`
    const answers = [
      await ask(alive!.port, host),
      await ask(away!.port, host),
      await ask(away!.port, host, malformed).catch(() => undefined),
    ]
    for (const answer of answers.slice(0, 2)) t.is(answer!.headers['retry-after'], '2')
    each[surface] = answers.map(answer => answer && said(answer))
  }
  for (const release of held) release()
  await one
  const text = [
    [429, 'text/plain'],
    [503, 'text/plain'],
    [400, 'text/plain'],
  ]
  t.deepEqual(each, {
    api: [
      [429, 'KEEP_CALM'],
      [503, 'CLUSTER_MAINTENANCE_TRY_LATER'],
      [400, 'INVALID_INPUT'],
    ],
    blob: [
      [429, 'RATE_LIMITED'],
      [503, 'PRIVATE_STORAGE_UNAVAILABLE'],
      [400, 'INVALID_INPUT'],
    ],
    s3: [
      [503, 'SlowDown'],
      [503, 'ServiceUnavailable'],
      [400, 'InvalidRequest'],
    ],
    files: text,
    public: text,
  })
})

test('TRACE is refused by the proxy, in the format of the requested surface, and not forwarded', async t => {
  let reached = 0
  const origin = await startOrigin((_, answer) => {
    reached++
    answer.end('reached')
  })
  const all = [`127.0.0.1:${origin.port}`]
  const proxy = await startProxy({}, () => ({ targets: { api: all, blob: all, s3: all, files: all, public: all } }))
  t.teardown(async () => {
    await proxy.stop()
    await origin.stop()
  })
  await proxy.edge.setRoute({ host: 'a.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
  const trace = async (name: string) => {
    const headers = { cookie: 'session=secret', authorization: 'secret' }
    const { status, body, headers: got } = await ask(proxy.port, `${name}.localhost`, { method: 'TRACE', headers })
    t.false((body + JSON.stringify(got)).includes('secret'), name)
    return [status, /"code":"(\w+)"|<Code>(\w+)/.exec(body)?.slice(1).find(Boolean) ?? got['content-type']]
  }
  t.deepEqual(await trace('api'), [404, 'ROUTE_NOT_FOUND'])
  t.deepEqual(await trace('blob'), [404, 'NOT_FOUND'])
  t.deepEqual(await trace('s3'), [405, 'MethodNotAllowed'])
  t.deepEqual(await trace('files'), [404, 'text/plain; charset=utf-8'])
  t.deepEqual(await trace('public'), [404, 'text/plain; charset=utf-8'])
  t.deepEqual(await trace('a'), [405, 'text/html; charset=utf-8'])
  t.deepEqual(await trace('nobody'), [405, 'text/html; charset=utf-8'])
  t.is(reached, 0)
})

test('a body of any size is forwarded to every surface: the API decides which one is too large', async t => {
  const origin = await startOrigin((incoming, answer) => answer.end(incoming.headers['content-length']))
  const all = [`127.0.0.1:${origin.port}`]
  const proxy = await startProxy({}, () => ({ targets: { api: all, blob: all, s3: all, files: all, public: all } }))
  t.teardown(async () => {
    await proxy.stop()
    await origin.stop()
  })
  const announced = String(2 ** 50)
  for (const surface of ['api', 'blob', 's3', 'files', 'public']) {
    const headers = { 'content-length': announced }
    const { status, body } = await ask(proxy.port, `${surface}.localhost`, { method: 'POST', headers })
    t.deepEqual([status, body], [200, announced], surface)
  }
})

test('an address, or an IPv6 network, may have a limited number of open requests', async t => {
  let release = () => {}
  const held = new Promise<void>(resolve => {
    release = resolve
  })
  let waiting = 0
  const origin = await startOrigin(async (_, answer) => {
    waiting++
    await held
    answer.end('done')
  })
  const settings = { EDGE_CONNECTIONS_PER_ADDRESS: '2', RATE_LIMIT_SCALE: '2', EDGE_TRUSTED_PROXIES: '127.0.0.1' }
  const proxy = await startProxy(settings)
  t.teardown(async () => {
    await proxy.stop()
    await origin.stop()
  })
  await proxy.edge.setRoute({ host: 'slow.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
  const from = (address: string) => {
    const headers = { 'x-forwarded-for': address, 'x-forwarded-proto': 'https' }
    return ask(proxy.port, 'slow.localhost', { headers })
  }
  const open: ReturnType<typeof from>[] = []
  for (const [many, one] of [
    ['203.0.113.1', '203.0.113.1'],
    ['2001:db8:1:2::', '2001:db8:1:2:ffff::9'],
  ] as const) {
    const before = waiting
    for (let n = 1; n <= 4; n++) open.push(from(many.endsWith(':') ? many + n : many))
    await comesTrue(() => waiting >= before + 4)
    let over = false
    const fifth = from(one).finally(() => {
      over = true
    })
    await comesTrue(() => over || waiting > before + 4)
    t.is(waiting, before + 4, one)
    const refused = await fifth
    t.is(refused.status, 429, one)
    t.regex(refused.body, /too many open requests/)
  }
  for (const other of ['203.0.113.2', '2001:db8:1:3::1']) {
    const before = waiting
    open.push(from(other))
    await comesTrue(() => waiting > before)
  }
  release()
  for (const { status } of await Promise.all(open)) t.is(status, 200)
})

test('the client’s address is taken from a proxy before ours only if that one is trusted', async t => {
  const origin = await startOrigin((incoming, answer) =>
    answer.end(`${incoming.headers['x-forwarded-for']} ${incoming.headers['x-forwarded-proto']}`),
  )
  const trusting = await startProxy({ EDGE_TRUSTED_PROXIES: '127.0.0.0/8, 10.0.0.1' })
  t.teardown(async () => {
    await trusting.stop()
    await origin.stop()
  })
  await trusting.edge.setRoute({ host: 'a.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
  const headers = { 'x-forwarded-for': '6.6.6.6, 203.0.113.9', 'x-forwarded-proto': 'https' }
  t.is((await ask(trusting.port, 'a.localhost', { headers })).body, '203.0.113.9 https')
  const further = { ...headers, 'x-forwarded-for': '6.6.6.6, 203.0.113.9, 10.0.0.1' }
  t.is(
    (await ask(trusting.port, 'a.localhost', { headers: further })).body,
    '203.0.113.9 https',
    'behind two of our proxies',
  )
})
