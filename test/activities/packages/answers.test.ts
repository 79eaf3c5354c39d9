import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import test from 'ava'
import { MiB } from '../../../lib/bytes.ts'
import { packageCacheRules } from '../../../policy/packages/cache-rules.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { packageRegistry } from '../../kit/hosts/package-registry.ts'
import { get, loopbackPackages } from '../../kit/hosts/packages.ts'

/* What steps get when others have left, and when the cache cannot keep what a registry has. */

async function scene(t: Parameters<typeof loopbackPackages>[0], options = {}) {
  const registry = await packageRegistry()
  t.teardown(() => registry.close())
  const { named } = registry
  return { registry, named, ...(await loopbackPackages(t, { named, ...options })) }
}

/** Text that compresses to about this many bytes. */
const noise = (bytes: number) => randomBytes(bytes).toString('base64')

test.serial('a container that requests a large archive again and again, and leaves, delays no other', async t => {
  t.timeout(120_000)
  const { registry, base, cache } = await scene(t)
  const { path } = registry.publish('large', '1.0.0', noise(12 * MiB))
  registry.publish('tiny', '1.0.0')
  const origin = await base()
  t.is((await get(origin + path)).status, 200)
  const document = await get(`${origin}/npm/tiny`)
  const { hostname, port } = new URL(origin)
  for (let round = 1; round <= 20; round++) {
    const { requests } = (await cache.counts())!
    const sockets = Array.from({ length: 50 }, () => {
      const socket = connect({ host: hostname, port: Number(port), localAddress: '127.0.0.2' })
      socket.on('error', () => {})
      socket.pause()
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
      return socket
    })
    await comesTrue(async () => (await cache.counts())!.requests >= requests + 50)
    for (const socket of sockets) socket.resetAndDestroy()
  }
  const began = performance.now()
  // Its own request comes first, and those of others share it.
  const own = get(`${origin}/npm/tiny`, { from: '127.0.0.2' })
  await comesTrue(async () => (await cache.counts())!.requests >= 1003)
  const other = await get(`${origin}/npm/tiny`, { from: '127.0.0.3' })
  t.true(other.body.equals(document.body))
  t.is((await own).status, 200)
  t.true(performance.now() - began < 1500, `${performance.now() - began} ms`)
})

test('a download ends once its container has left, and goes on while another one reads it', async t => {
  t.timeout(60_000)
  const { registry, base, cache } = await scene(t)
  const [left, shared] = [
    registry.publish('left', '1.0.0', noise(MiB)),
    registry.publish('shared', '1.0.0', noise(MiB)),
  ]
  const origin = await base()
  const slow = new Map<string, { isOpen: boolean; end(): void }>()
  registry.instead = (request, response) => {
    const archive = [left, shared].find(({ path }) => path === request.url)
    if (!archive || slow.has(archive.path)) return false
    response.writeHead(200, { 'content-length': archive.bytes.length }).write(archive.bytes.subarray(0, 1000))
    const download = { isOpen: true, end: () => void response.end(archive.bytes.subarray(1000)) }
    slow.set(archive.path, download)
    response.once('close', () => {
      download.isOpen = false
    })
    return true
  }
  const { hostname, port } = new URL(origin)
  const sockets = [left, shared].map(({ path }) => {
    const socket = connect({ host: hostname, port: Number(port), localAddress: '127.0.0.2' })
    socket.on('error', () => {})
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
    return socket
  })
  await comesTrue(() => slow.size === 2)
  const other = get(origin + shared.path, { from: '127.0.0.3' })
  await comesTrue(async () => (await cache.counts())!.requests >= 3)
  for (const socket of sockets) socket.resetAndDestroy()
  await comesTrue(() => !slow.get(left.path)!.isOpen)
  t.true(slow.get(shared.path)!.isOpen)
  slow.get(shared.path)!.end()
  t.true((await other).body.equals(shared.bytes))
  t.true((await get(origin + left.path)).body.equals(left.bytes), 'the next one begins it again')
})

test('how long an archive is says the registry: a HEAD request makes the cache read nothing', async t => {
  const { registry, base, cache } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  const origin = await base()
  await get(origin + path)
  t.is((await get(origin + path, { method: 'HEAD' })).status, 307)
  t.is((await get(`${origin}/npm/tiny`, { method: 'HEAD' })).status, 200)
  t.is(registry.count(path), 1)
  t.like(await cache.counts(), { hits: 0, downloads: 1, passedOn: 1 })
})

test('a document that the cache cannot keep is requested from the registry: an older one does not stand in for it', async t => {
  const { registry, named, base, cache, folder } = await scene(t)
  registry.publish('tiny', '1.0.0')
  const url = `${await base()}/npm/tiny`
  t.is((await get(url)).status, 200)
  await cache.close()
  const full = await loopbackPackages(t, { named, folder, freeBytes: Number.MAX_SAFE_INTEGER / 2 })
  const origin = await full.base()
  t.is((await get(`${origin}/npm/tiny`)).status, 200, 'what has not changed is served')
  registry.publish('tiny', '1.0.1')
  const answer = await get(`${origin}/npm/tiny`)
  t.is(answer.status, 307)
  t.is(answer.headers.location, `${registry.npm}tiny`)
  t.true(full.warnings.some(words => words.includes('too little free space')))
  registry.instead = (_, response) => Boolean(response.end('<html>'))
  t.is((await get(`${origin}/npm/tiny`)).status, 307, 'no document')
  for (const status of [500, 429]) {
    registry.instead = (_, response) => Boolean(response.writeHead(status).end())
    t.is((await get(`${origin}/npm/tiny`)).status, 200, String(status))
  }
})

test('a document of one package vouches for no archive of another, and makes none that is stored go', async t => {
  const { registry, base, cache, warnings } = await scene(t)
  const { path, bytes } = registry.publish('tiny', '1.0.0')
  const scoped = registry.publish('@own/tiny', '1.0.0')
  const forged = (of: string) => ({
    dist: { tarball: registry.npm.replace('/npm/', '') + of, shasum: 'ab'.repeat(20) },
  })
  const versions = { '9.9.9': forged(path), '9.9.8': forged(scoped.path) }
  registry.publish('evil', '1.0.0', '', { versions })
  const origin = await base()
  for (const archive of [path, scoped.path]) t.is((await get(origin + archive)).status, 200)
  const lies = async () => {
    t.is((await get(`${origin}/npm/evil/1.0.0`)).status, 200)
    registry.instead = (request, response) =>
      request.url === '/npm/evil' && Boolean(response.end(JSON.stringify({ versions })))
    return (await get(`${origin}/npm/evil`)).body.toString()
  }
  const links = Object.values<{ dist: { tarball: string } }>(JSON.parse(await lies()).versions)
  // A link that only this document gives out: it leads nowhere, because the archive is another one.
  for (const { dist } of links) t.is((await get(dist.tarball)).status, 307)
  t.true((await get(origin + path)).body.equals(bytes))
  t.true((await get(origin + scoped.path)).body.equals(scoped.bytes))
  t.like(await cache.counts(), { hits: 2, downloads: 2 })
  t.true(warnings.some(words => words.includes('not what its document says')))
})

test('a scoped package vouches for its archives, however its name is written', async t => {
  const { registry, base } = await scene(t)
  const { path, bytes } = registry.publish('@own/tiny', '1.0.0')
  const origin = await base()
  for (const name of ['@own/tiny', '@own%2ftiny', '@own%2Ftiny']) {
    const { versions } = JSON.parse((await get(`${origin}/npm/${name}`)).body.toString())
    t.is(versions['1.0.0'].dist.tarball, origin + path, name)
  }
  t.true((await get(origin + path)).body.equals(bytes))
  t.is(registry.requests.filter(one => one.endsWith('/1.0.0')).length, 0, 'its digest is known')
})

test('at a private address the registry that an operator has named is asked, and nothing else there', async t => {
  const { registry, base, warnings } = await scene(t)
  const other = await packageRegistry()
  t.teardown(() => other.close())
  const { path } = other.publish('tiny', '1.0.0')
  const dist = { tarball: other.npm.replace('/npm/', '') + path, shasum: 'ab'.repeat(20) }
  registry.publish('tiny', '1.0.0')
  registry.instead = (_, response) => Boolean(response.end(JSON.stringify({ versions: { '1.0.0': { dist } } })))
  const { versions } = JSON.parse((await get(`${await base()}/npm/tiny`)).body.toString())
  t.is((await get(versions['1.0.0'].dist.tarball)).status, 307)
  t.deepEqual(other.requests, [])
  t.true(warnings.some(words => words.includes('127.0.0.1 is no public address')))
})

test('a file that is being read stays on the disk and counts; an answer without room next to it is passed on', async t => {
  t.timeout(60_000)
  const maxBytes = 20 * MiB
  const { registry, base, cache } = await scene(t, { maxBytes })
  const read = registry.publish('read', '1.0.0', noise(12 * MiB))
  const other = registry.publish('other', '1.0.0', noise(12 * MiB))
  t.true(read.bytes.length + other.bytes.length > maxBytes && read.bytes.length > 10 * MiB)
  const origin = await base()
  await get(origin + read.path)
  const { hostname, port } = new URL(origin)
  const reader = connect({ host: hostname, port: Number(port), localAddress: '127.0.0.2' })
  reader.on('error', () => {}).pause()
  reader.write(`GET ${read.path} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await comesTrue(async () => (await cache.counts())!.hits === 1)
  t.is((await get(origin + other.path)).status, 307)
  t.true((await get(origin + read.path)).body.equals(read.bytes))
  t.is(registry.count(read.path), 1)
  t.true((await cache.counts())!.bytes <= maxBytes)
  reader.resetAndDestroy()
  await comesTrue(async () => (await get(origin + other.path)).status === 200)
  t.true((await cache.counts())!.bytes <= maxBytes)
})

test('an answer of a registry that the cache does not take is closed', async t => {
  const { registry, named, base, cache, folder } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  await get(`${await base()}/npm/tiny`)
  await cache.close()
  const full = await loopbackPackages(t, { named, folder, freeBytes: Number.MAX_SAFE_INTEGER / 2 })
  const origin = await full.base()
  let [started, closed] = [0, 0]
  registry.instead = ({ url = '' }, response) => {
    started++
    response.once('close', () => closed++)
    // Both never end.
    if (url.endsWith('.tgz')) response.writeHead(200, { 'content-length': 1e12 }).write(Buffer.alloc(100))
    else {
      response.writeHead(200, { 'content-encoding': 'gzip' })
      response.write(gzipSync(Buffer.alloc(packageCacheRules.documentBytes + 1)).subarray(0, -8))
    }
    return true
  }
  const since = performance.now()
  for (const one of [path, '/npm/tiny']) t.is((await get(origin + one)).status, 307)
  t.true(started >= 2)
  await comesTrue(() => closed === started)
  const { silent } = packageCacheRules.upstreamSeconds
  t.true(performance.now() - since < silent * 500, 'not only because they are silent')
})

test('failures that a build provokes hide no others in the log, which says what was requested', async t => {
  const { registry, base, warnings } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  const origin = await base()
  registry.instead = ({ url = '' }, response) => url.includes('evil') && Boolean(response.end('<html>'))
  for (let n = 0; n < 20; n++) t.is((await get(`${origin}/npm/evil${n}${'x'.repeat(300)}`)).status, 307)
  registry.tamper(path, Buffer.from('x'))
  t.is((await get(origin + path)).status, 307)
  await comesTrue(() => warnings.some(words => words.includes(`not what its document says. (${path})`)))
  const provoked = warnings.filter(words => words.includes('/npm/evil'))
  t.is(provoked.length, packageCacheRules.warnings.perMinute)
  t.true(provoked.every(words => !words.includes('x'.repeat(200))))
})
