import test from 'ava'
import { unusedPort } from '../../cli/ports.ts'
import { type SurfaceTargets, surfaceTargets } from '../../edge/surfaces.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ask, named, type Origin, startOrigin } from '../kit/origin.ts'
import { startProxy } from '../kit/proxy.ts'

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
  t.like(JSON.parse(seen.body), { status: 'error', code: 'CLUSTER_MAINTENANCE_TRY_LATER' })
})

test('one address may have so many requests open, and no more', async t => {
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
  const proxy = await startProxy({ EDGE_CONNECTIONS_PER_ADDRESS: '2', RATE_LIMIT_SCALE: '2' })
  t.teardown(async () => {
    await proxy.stop()
    await origin.stop()
  })
  await proxy.edge.setRoute({ host: 'slow.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
  const open = Array.from({ length: 4 }, () => ask(proxy.port, 'slow.localhost'))
  await comesTrue(() => waiting >= 4)
  const refused = await ask(proxy.port, 'slow.localhost')
  t.is(refused.status, 429)
  t.regex(refused.body, /too many requests open/)
  release()
  t.deepEqual(
    (await Promise.all(open)).map(seen => seen.status),
    [200, 200, 200, 200],
  )
})

test('the client is read from a proxy before ours only when that one is trusted', async t => {
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
  t.is((await ask(trusting.port, 'a.localhost', { headers: further })).body, '203.0.113.9 https', 'behind two of ours')
})
