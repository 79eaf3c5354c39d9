import { once } from 'node:events'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { request, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import test from 'ava'
import { KiB } from '../../../lib/bytes.ts'
import { packageCacheRules, packageSlots } from '../../../policy/packages/cache-rules.ts'
import { namedRegistries } from '../../../policy/packages/registries.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { startConnectProxy } from '../../kit/git/connect-proxy.ts'
import { packageRegistry } from '../../kit/hosts/package-registry.ts'
import { get, loopbackPackages, processIn, statusOf, storedIn, testPackages } from '../../kit/hosts/packages.ts'
import { demandRoot } from '../../kit/root.ts'

async function scene(t: Parameters<typeof loopbackPackages>[0], options = {}) {
  const registry = await packageRegistry()
  t.teardown(() => registry.close())
  const { named } = registry
  return { registry, ...(await loopbackPackages(t, { named, ...options })) }
}

/** Stored archives; what is still being written is none. */
const archivesIn = async (folder: string): Promise<number> => {
  const names = (await storedIn(folder)).filter(name => !name.endsWith('.part'))
  const files = await Promise.all(names.map(name => readFile(join(folder, name))))
  return files.filter(bytes => bytes[0] === 0x1f).length
}

test('concurrent requests of two containers for one archive download it once, and its links lead back to the cache', async t => {
  const { registry, base, cache } = await scene(t)
  const { path, bytes } = registry.publish('tiny', '1.0.0')
  const origin = await base()
  const document = await get(`${origin}/npm/tiny`)
  const link: string = JSON.parse(document.body.toString()).versions['1.0.0'].dist.tarball
  t.is(link, origin + path)
  const from = ['127.0.0.2', '127.0.0.3', '127.0.0.2', '127.0.0.3']
  for (const answer of await Promise.all(from.map(address => get(link, { from: address })))) {
    t.is(answer.status, 200)
    t.true(answer.body.equals(bytes))
  }
  t.is(registry.count(path), 1)
  t.like(await cache.counts(), { downloads: 1, hits: 3, troubles: 0, passedOn: 0 })
})

test('a request with credentials, a query, or another method is refused, and nothing of it reaches a registry', async t => {
  const { registry, base, cache } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  const origin = await base()
  for (const name of ['authorization', 'cookie', 'proxy-authorization'])
    for (const address of ['/npm/tiny', path])
      t.is((await get(origin + address, { headers: { [name]: 'x' } })).status, 403, name)
  for (const method of ['POST', 'PUT', 'DELETE'])
    t.is((await get(`${origin}/npm/tiny`, { method })).status, 405, method)
  for (const address of ['/npm/tiny?write=true', '/npm/../npm/tiny', '/npm/%2e%2e/tiny', '/npm//tiny', '/npm/tiny#a'])
    t.is((await get(origin + address)).status, 403, address)
  for (const address of [
    '/',
    '/npm/',
    '/npm/-/ping',
    '/npm/-/user/x',
    '/other/tiny',
    '/npm/tiny/1.0.0/more',
    '/~/x/y/z',
  ])
    t.is((await get(origin + address)).status, 404, address)
  t.deepEqual(registry.requests, [])
  t.is((await cache.counts())?.downloads, 0)
  await get(`${origin}/npm/tiny`, { headers: { 'x-secret': 'x', referer: 'x', 'user-agent': 'mine' } })
  const sent = registry.headers()
  t.deepEqual(Object.keys(sent).sort(), ['accept', 'accept-encoding', 'connection', 'host', 'user-agent'])
  t.is(sent['user-agent'], 'berth')
})

test('an archive that is short, or other bytes than its document says, is not stored, and its step is sent to the registry', async t => {
  const { registry, base, folder, cache, warnings } = await scene(t)
  const { path, bytes } = registry.publish('tiny', '1.0.0')
  const origin = await base()
  const faults: [string, () => void][] = [
    ['changed', () => registry.tamper(path, Buffer.concat([bytes, Buffer.from('x')]))],
    ['cut', () => registry.tamper(path, bytes.subarray(0, -1))],
  ]
  for (const [what, fault] of faults) {
    fault()
    const answer = await get(origin + path)
    t.is(answer.status, 307, what)
    t.is(answer.headers.location, registry.npm.replace('/npm/', '') + path)
    t.is(await archivesIn(folder), 0, what)
  }
  registry.tamper(path, bytes)
  registry.instead = (request, response) => {
    if (!request.url?.endsWith('.tgz')) return false
    response.writeHead(200, { 'content-length': bytes.length })
    response.write(bytes.subarray(0, 10), () => response.destroy())
    return true
  }
  t.is((await get(origin + path)).status, 307)
  t.is(await archivesIn(folder), 0)
  registry.instead = () => false
  t.true((await get(origin + path)).body.equals(bytes))
  t.like(await cache.counts(), { downloads: 1, passedOn: 3 })
  t.true(warnings.some(words => words.includes('not what its document says')))
})

test('an archive that no document vouches for is not stored', async t => {
  const { registry, base, folder } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  registry.tamper(path.replace('1.0.0', '2.0.0'), Buffer.from([0x1f]))
  const origin = await base()
  t.is((await get(origin + path.replace('1.0.0', '2.0.0'))).status, 307)
  t.is(await archivesIn(folder), 0)
})

test('a stored archive that was damaged is downloaded again', async t => {
  const { registry, base, use, folder, cache } = await scene(t)
  const { path, bytes } = registry.publish('tiny', '1.0.0')
  const origin = await base()
  await get(origin + path)
  const damage = async () => {
    for (const name of await storedIn(folder)) {
      const file = join(folder, name)
      await writeFile(file, Buffer.alloc((await stat(file)).size))
    }
  }
  await damage()
  t.true((await get(origin + path)).body.equals(bytes))
  t.is(registry.count(path), 2)
  t.like(await cache.counts(), { downloads: 2, troubles: 0, passedOn: 0 })
  // A process that has not seen the document yet knows only what the names of files say.
  process.kill(await processIn(folder), 'SIGKILL')
  await damage()
  await comesTrue(async () => (await use()) !== null)
  t.true((await get((await base()) + path)).body.equals(bytes))
  t.is(registry.count(path), 3)
})

test('a process that is killed during a download leaves no wrong archive, and the next one serves at the same address', async t => {
  const { registry, base, folder, warnings } = await scene(t)
  const { path, bytes } = registry.publish('tiny', '1.0.0', 'x'.repeat(1000))
  const origin = await base()
  let held: ServerResponse | null = null
  registry.instead = (request, response) => {
    if (!request.url?.endsWith('.tgz')) return false
    held = response
    response.writeHead(200, { 'content-length': bytes.length }).write(bytes.subarray(0, 50))
    return true
  }
  const cut = get(origin + path)
  await comesTrue(async () => (await storedIn(folder)).some(name => name.endsWith('.part')))
  await comesTrue(async () => held !== null)
  process.kill(await processIn(folder), 'SIGKILL')
  await t.throwsAsync(cut)
  t.is(await archivesIn(folder), 0)
  registry.instead = () => false
  t.is(await base(), origin)
  t.true((await get(origin + path)).body.equals(bytes))
  t.false((await storedIn(folder)).some(name => name.endsWith('.part')))
  t.true(warnings.some(words => words.includes('the process of the cache ended')))
})

test('documents are requested again with their ETag, and the stored one is used where the registry does not answer', async t => {
  const { registry, base } = await scene(t)
  registry.publish('tiny', '1.0.0')
  const origin = await base()
  const first = await get(`${origin}/npm/tiny`)
  let statuses: number[] = []
  registry.instead = (_, response) => void response.once('finish', () => statuses.push(response.statusCode)) as never
  t.true((await get(`${origin}/npm/tiny`)).body.equals(first.body))
  t.deepEqual(statuses, [304])
  registry.publish('tiny', '1.0.1')
  statuses = []
  const changed = await get(`${origin}/npm/tiny`)
  t.deepEqual(Object.keys(JSON.parse(changed.body.toString()).versions), ['1.0.0', '1.0.1'])
  t.deepEqual(statuses, [200])
  registry.instead = (_, response) => Boolean(response.writeHead(500).end())
  t.true((await get(`${origin}/npm/tiny`)).body.equals(changed.body))
  t.is((await get(`${origin}/npm/other`)).status, 307)
  await registry.close()
  t.true((await get(`${origin}/npm/tiny`)).body.equals(changed.body))
})

test('the least recently used files give way to new ones, and the folder stays within its bound', async t => {
  const filler = () => Array.from({ length: 40 * KiB }, () => Math.random().toString(36)[2]).join('')
  const maxBytes = 128 * KiB
  const { registry, base, folder, cache } = await scene(t, { maxBytes })
  const paths = Array.from({ length: 8 }, (_, n) => registry.publish('tiny', `1.0.${n}`, filler()).path)
  const origin = await base()
  for (const path of paths) {
    t.is((await get(origin + path)).status, 200)
    t.is((await get(origin + paths[0]!)).status, 200)
    t.true((await cache.counts())!.bytes <= maxBytes)
  }
  t.is(registry.count(paths[0]!), 1, 'what is in use stays')
  let bytes = 0
  for (const name of await storedIn(folder)) bytes += (await stat(join(folder, name))).size
  t.true(bytes <= maxBytes, String(bytes))
  await get(origin + paths[1]!)
  t.is(registry.count(paths[1]!), 2)
})

test('an archive that the cache has no room for is passed on', async t => {
  const { registry, base } = await scene(t, { maxBytes: 2 * KiB })
  const { path } = registry.publish(
    'tiny',
    '1.0.0',
    Array.from({ length: 9000 }, () => Math.random().toString(36)[2]).join(''),
  )
  t.is((await get((await base()) + path)).status, 307)
})

test('a container with all connections that it may have does not delay another one', async t => {
  const { registry, base, cache } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  registry.publish('hung', '1.0.0')
  const origin = await base()
  const { hostname, port } = new URL(origin)
  registry.instead = request => request.url?.startsWith('/npm/hung') ?? false
  const many = Array.from({ length: packageCacheRules.connectionsPerContainer + 20 }, () => {
    const socket = connect({ host: hostname, port: Number(port), localAddress: '127.0.0.2' })
    socket.on('error', () => {})
    // Documents that never come, and requests that never end.
    socket.write(`GET /npm/hung HTTP/1.1\r\nHost: x\r\nX-Number: ${Math.random()}\r\n\r\nGET /npm/hung HTTP/1.1\r\n`)
    return socket
  })
  t.teardown(() => void many.map(socket => socket.destroy()))
  await comesTrue(async () => many.filter(socket => socket.closed).length >= 20)
  const answers = await Promise.all(Array.from({ length: 20 }, () => get(origin + path, { from: '127.0.0.3' })))
  t.true(answers.every(({ status }) => status === 200))
  t.true((await cache.counts())!.troubles >= 20)
})

test('containers that never read what they have requested do not delay another one', async t => {
  const { registry, base, cache } = await scene(t)
  const filler = () => Array.from({ length: 3000 * KiB }, () => Math.random().toString(36)[2]).join('')
  const large = registry.publish('large', '1.0.0', filler())
  const { path } = registry.publish('tiny', '1.0.0')
  const origin = await base()
  t.true((await get(origin + large.path)).body.equals(large.bytes))
  const { hostname, port } = new URL(origin)
  const sockets = Array.from({ length: 120 }, (_, n) => {
    const socket = connect({ host: hostname, port: Number(port), localAddress: n % 2 ? '127.0.0.2' : '127.0.0.4' })
    socket.on('error', () => {})
    socket.pause()
    socket.write(`GET ${large.path} HTTP/1.1\r\nHost: x\r\n\r\n`)
    return socket
  })
  t.teardown(() => void sockets.map(socket => socket.destroy()))
  await comesTrue(async () => (await cache.counts())!.hits === 120)
  const answers = await Promise.all(Array.from({ length: 20 }, () => get(origin + path, { from: '127.0.0.3' })))
  t.true(answers.every(({ status }) => status === 200))
  t.true((await get(origin + large.path, { from: '127.0.0.3' })).body.equals(large.bytes))
})

test('a container whose downloads never end does not delay those of another one', async t => {
  const { registry, base } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  const half = packageSlots.downloads.atOnce / 2
  const hung = Array.from({ length: 40 }, (_, n) => registry.publish('hung', `1.0.${n}`).path)
  const origin = await base()
  registry.instead = request => request.url?.startsWith('/npm/hung/-/') ?? false
  const ends: Promise<unknown>[] = hung.map(one => get(origin + one).catch(() => null))
  await comesTrue(() => registry.requests.filter(one => one.includes('/npm/hung/-/')).length === half)
  t.is((await get(origin + path, { from: '127.0.0.3' })).status, 200)
  t.is(registry.requests.filter(one => one.includes('/npm/hung/-/')).length, half)
  await Promise.all(ends)
})

test('an archive that arrives slowly is passed on meanwhile, and its end only once it is verified', async t => {
  t.timeout(60_000)
  const { registry, base, cache } = await scene(t)
  const filler = Array.from({ length: 400 * KiB }, () => Math.random().toString(36)[2]).join('')
  const [good, bad] = [registry.publish('good', '1.0.0', filler), registry.publish('bad', '1.0.0', filler)]
  const origin = await base()
  const rests: (() => void)[] = []
  registry.instead = (request, response) => {
    const archive = [good, bad].find(({ path }) => path === request.url)
    if (!archive) return false
    const bytes = Buffer.from(archive.bytes)
    if (archive === bad) bytes[bytes.length - 1]! ^= 1
    response.writeHead(200, { 'content-length': bytes.length }).write(bytes.subarray(0, bytes.length / 2))
    rests.push(() => response.end(bytes.subarray(bytes.length / 2)))
    return true
  }
  const began = (path: string) =>
    new Promise<{ first: Buffer; whole: Promise<Buffer | null> }>(resolve =>
      request(origin + path, { localAddress: '127.0.0.2' }, response => {
        const pieces: Buffer[] = []
        const whole = new Promise<Buffer | null>(done => {
          response.once('end', () => done(Buffer.concat(pieces))).once('error', () => done(null))
        })
        response.on('data', piece => pieces.push(piece))
        response.once('data', first => resolve({ first, whole }))
      }).end(),
    )
  const [one, other] = await Promise.all([began(good.path), began(bad.path)])
  t.true(one.first.length > 0)
  for (const rest of rests) rest()
  t.true((await one.whole)?.equals(good.bytes))
  t.is(await other.whole, null, 'it is cut off')
  t.like(await cache.counts(), { downloads: 1, troubles: 1 })
})

test('a connection from outside of the network of builds gets no answer', async t => {
  const { registry, base } = await scene(t, { subnet: '127.0.0.0/30' })
  registry.publish('tiny', '1.0.0')
  const origin = await base()
  t.is((await get(`${origin}/npm/tiny`, { from: '127.0.0.2' })).status, 200)
  await t.throwsAsync(get(`${origin}/npm/tiny`, { from: '127.0.0.9' }))
  await t.throwsAsync(get(`${origin}/npm/tiny`, { from: '127.1.0.1' }))
})

test('a registry at a private address is asked only if an operator has named it, and no redirect leads to one', async t => {
  const registry = await packageRegistry()
  t.teardown(() => registry.close())
  registry.publish('tiny', '1.0.0')
  const asked = `; user config\nregistry = "${registry.npm}"\n`
  const unnamed = await loopbackPackages(t, { named: namedRegistries({}), asked })
  t.is((await get(`${await unnamed.base()}/npm/tiny`)).status, 307)
  t.deepEqual(registry.requests, [])
  const named = await scene(t)
  const other = registry.npm.replace('127.0.0.1', '127.0.0.5')
  named.registry.instead = (_, response) => Boolean(response.writeHead(302, { location: `${other}tiny` }).end())
  t.is((await get(`${await named.base()}/npm/tiny`)).status, 307)
  t.deepEqual(registry.requests, [])
  t.true(named.warnings.some(words => words.includes('127.0.0.5 is no public address')))
})

test('archives elsewhere are downloaded only by addresses that a document of the registry has named', async t => {
  const { registry, base } = await scene(t)
  const { path, bytes } = registry.publishWheel('tiny', '1.0.0')
  const origin = await base('pip')
  const page = (await get(`${origin}/simple/tiny/`)).body.toString()
  const [, link = '', fragment] = /href="([^"#]+)#([^"]+)"/.exec(page) ?? []
  t.true(link.startsWith(`${origin}/~/`))
  t.regex(fragment ?? '', /^sha256=[0-9a-f]{64}$/)
  t.true((await get(link)).body.equals(bytes))
  t.regex((await get(`${link}.metadata`)).body.toString(), /^Metadata-Version/)
  registry.tamper(`${path}.metadata`, Buffer.from('x'))
  t.is((await get(`${link}.metadata`)).status, 200, 'it is stored')
  const [mac = '', text = ''] = link.slice(`${origin}/~/`.length).split('/')
  const forged = Buffer.from(Buffer.from(text, 'base64url').toString().replace('1.0.0', '1.0.1')).toString('base64url')
  t.is((await get(`${origin}/~/${mac}/${forged}/tiny.whl`)).status, 404)
  const npm = await base('npm')
  t.is((await get(link.replace(origin, npm))).status, 404, 'the signature is for one registry')
  t.is(registry.count(path), 1)
})

test('a step has no reason to be tried again when the cache has only answered it well', async t => {
  const { registry, use, base, folder } = await scene(t)
  registry.publish('tiny', '1.0.0')
  const origin = await base()
  const step = async (from = '127.0.0.2') => {
    const one = (await use())!
    const [, up] = /GET (\/~\/up\/\S+) HTTP/.exec(one.install('')) ?? []
    t.is((await get(`${origin}${up}`, { from })).status, 204)
    return one
  }
  t.false(await (await use())!.hadTrouble(), 'a step that does not reach it does without')
  const well = await step()
  await get(`${origin}/npm/tiny`)
  t.false(await well.hadTrouble())
  const [missing, neighbour] = [await step(), await step('127.0.0.3')]
  await get(`${origin}/npm/missing`)
  await get(`${origin}/npm/tiny`, { method: 'POST' })
  t.true(await missing.hadTrouble())
  t.false(await neighbour.hadTrouble(), 'what another container has had counts for nobody else')
  await get(`${origin}/npm/missing`)
  const later = await step()
  t.false(await later.hadTrouble(), 'nor does what an earlier one has had at its address')
  const ended = await step()
  await get(`${origin}/npm/tiny`)
  const pid = await processIn(folder)
  process.kill(pid, 'SIGKILL')
  await comesTrue(async () => (await processIn(folder).catch(() => 0)) !== pid)
  t.true(await ended.hadTrouble())
})

test('a process that has ended comes back by itself, at the same address', async t => {
  const { registry, base, folder, warnings } = await scene(t)
  registry.publish('tiny', '1.0.0')
  const origin = await base()
  process.kill(await processIn(folder), 'SIGKILL')
  await comesTrue(async () => (await get(`${origin}/npm/tiny`).catch(() => null))?.status === 200)
  t.true(warnings.some(words => words.includes('the process of the cache ended')))
})

test('a connection serves one request after the other, and is closed when many arrive together', async t => {
  const { registry, base, cache } = await scene(t)
  const { path, bytes } = registry.publish('tiny', '1.0.0')
  const origin = await base()
  const { hostname, port } = new URL(origin)
  const ask = `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
  const socket = connect({ host: hostname, port: Number(port), localAddress: '127.0.0.2' })
  t.teardown(() => void socket.destroy())
  let received = Buffer.alloc(0)
  let answers = 0
  socket.on('data', piece => {
    received = Buffer.concat([received, piece])
    // As soon as the last byte is here.
    if (!received.subarray(-bytes.length).equals(bytes)) return
    answers++
    received = Buffer.alloc(0)
    if (answers < 200) socket.write(ask)
  })
  socket.write(ask)
  await comesTrue(() => answers === 200 || socket.closed)
  t.is(answers, 200)
  socket.write(ask.repeat(20))
  await once(socket, 'close')
  t.true((await cache.counts())!.troubles > 0)
})

test('a process that stops answering is ended, and the next one answers', async t => {
  t.timeout(60_000)
  const { registry, base, use, folder } = await scene(t)
  registry.publish('tiny', '1.0.0')
  const origin = await base()
  const pid = await processIn(folder)
  process.kill(pid, 'SIGSTOP')
  const held = get(`${origin}/npm/tiny`)
  await t.throwsAsync(held)
  await comesTrue(async () => (await use()) !== null)
  t.is((await get(`${await base()}/npm/tiny`)).status, 200)
  t.not(await processIn(folder), pid)
})

test('a cache that does not start is not waited for again by the steps of the next minute', async t => {
  const { use, folder, warnings } = await scene(t)
  const obstacle = join(folder, 'link.key')
  await mkdir(obstacle, { recursive: true })
  t.deepEqual(await Promise.all([use(), use()]), [null, null])
  const faults = () => warnings.filter(words => words.includes('a step does without the cache'))
  t.is(faults().length, 1)
  t.regex(faults()[0]!, /EISDIR/)
  await rm(obstacle, { recursive: true })
  t.is(await use(), null)
  await t.throwsAsync(processIn(folder), undefined, 'it was not started again')
  t.is(faults().length, 1)
})

test('a step that ends does not wait for the cache', async t => {
  const { cache } = await testPackages(t, {
    network: { name: 'builds', labels: {} },
    named: namedRegistries({ PACKAGE_CACHE_NPM: 'http://registry.test/' }),
  })
  const never = () => new Promise<never>(() => {})
  let begin = () => {}
  const begun = new Promise<void>(resolve => {
    begin = resolve
  })
  const ensureNetwork = () => {
    begin()
    return never()
  }
  const engine = { ensureNetwork, listNetworks: never, imageId: never, runToEnd: never }
  const step = new AbortController()
  const spec = { image: 'image', env: {}, binds: [] } as never
  const uses = [1, 2].map(() => cache.use({ kind: 'npm', engine, spec, signal: step.signal }))
  await begun
  step.abort(new Error('The step ends.'))
  for (const use of uses) await t.throwsAsync(use, { message: 'The step ends.' })
})

test('the process of the cache has its own user, no environment, and ends with the cache', async t => {
  demandRoot()
  const { base, folder, cache } = await scene(t)
  await base()
  const pid = await processIn(folder)
  const { uid } = packageCacheRules
  for (const field of ['Uid', 'Gid']) t.is(await statusOf(pid, field), Array(4).fill(uid).join('\t'))
  t.is(await statusOf(pid, 'Groups'), '')
  t.is(await statusOf(pid, 'CapEff'), '0000000000000000')
  t.deepEqual((await stat(folder)).uid, uid)
  await cache.close()
  await t.throwsAsync(processIn(folder))
})

test('without a cache there is no process and no folder', async t => {
  const { use, folder, cache } = await scene(t, { maxBytes: 0 })
  t.is(await use(), null)
  t.is(await cache.counts(), null)
  t.deepEqual(cache.endpoints(), [])
  await t.throwsAsync(stat(folder), { code: 'ENOENT' })
  const off = await scene(t, { named: { npm: 'off', pip: 'off' } })
  t.is(await off.use(), null)
})

test('packages are requested through the proxy of the host, and builds get nothing of its credentials', async t => {
  const proxy = await startConnectProxy({ credentials: 'ana:p@ss' })
  t.teardown(() => proxy.stop())
  const through = (credentials: string) => proxy.url.replace('http://', `http://${credentials}@`)
  const { registry, base, warnings, folder } = await scene(t, {
    named: { npm: 'http://registry.invalid/npm/', pip: null },
    proxy: { http: through('ana:p%40ss'), https: null, none: null },
  })
  proxy.servers.set('registry.invalid:80', registry.port)
  registry.publish('tiny', '1.0.0')
  const answers = [await get(`${await base()}/npm/tiny`)]
  t.is(answers[0]?.status, 200)
  const basic = Buffer.from('ana:p@ss').toString('base64')
  const asked = { method: 'CONNECT', target: 'registry.invalid:80', authorization: `Basic ${basic}` }
  t.deepEqual(proxy.requests, [asked])
  const other = await scene(t, {
    named: { npm: 'http://registry.invalid/npm/', pip: null },
    proxy: { http: through('ana:wrong-secret'), https: null, none: null },
  })
  for (const path of ['/npm/tiny', '/npm/tiny/-/tiny-1.0.0.tgz']) answers.push(await get((await other.base()) + path))
  await comesTrue(() => other.warnings.length > 0)
  const stored = await Promise.all((await storedIn(folder)).map(name => readFile(join(folder, name), 'latin1')))
  const seen = JSON.stringify([answers.map(({ headers, body }) => [headers, body.toString()]), stored])
  t.regex(other.warnings.join(), /407/)
  t.notRegex(seen + JSON.stringify([warnings, other.warnings]), /ana:|p@ss|p%40ss|wrong-secret/)
  t.false(seen.includes(basic) || seen.includes(new URL(proxy.url).host))
})
