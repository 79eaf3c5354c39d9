import { gzipSync } from 'node:zlib'
import test from 'ava'
import { MiB } from '../../../lib/bytes.ts'
import { packageCacheRules } from '../../../policy/packages/cache-rules.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { wholeDigest } from '../../kit/hosts/gem-index.ts'
import { packageRegistry } from '../../kit/hosts/package-registry.ts'
import { damageStored, get, loopbackPackages, storedIn } from '../../kit/hosts/packages.ts'

/* Lists of a registry that grow at their end, such as that of all versions of all gems. */

async function scene(t: Parameters<typeof loopbackPackages>[0], options = {}) {
  const registry = await packageRegistry()
  t.teardown(() => registry.close())
  const packages = await loopbackPackages(t, { named: registry.named, ...options })
  const { list } = registry.gems
  return { registry, list, ...packages, url: (await packages.base('bundler')) + list }
}

/** Lines of a list with this length in all. */
const lines = (bytes: number) => 'tiny 1.0.0 0123456789\n'.repeat(Math.ceil(bytes / 22))

test('a list is longer than a document may be, and only what was added to it is requested', async t => {
  const { registry, list, url, cache } = await scene(t)
  registry.gems.relist(lines(packageCacheRules.documentBytes + MiB))
  t.true((await get(url)).body.equals(registry.gems.listed()))
  const { headers, body } = await get(url)
  t.true(body.equals(registry.gems.listed()))
  t.is((await get(url, { headers: { 'if-none-match': headers.etag! } })).status, 304)
  t.is(registry.headers()['if-none-match'], headers.etag)
  const { length } = registry.gems.listed()
  registry.gems.publish('tiny', '1.0.0')
  const answer = await get(url, { headers: { 'if-none-match': headers.etag! } })
  t.is(answer.status, 200)
  t.true(answer.body.equals(registry.gems.listed()))
  t.is(registry.headers().range, `bytes=${length - 1}-`)
  t.is(registry.count(list), 4)
  t.like(await cache.counts(), { entries: 1, troubles: 0, passedOn: 0 })
})

test('a list that has changed before its end, or whose digest nobody says, is requested whole', async t => {
  const { registry, list, url, cache } = await scene(t)
  registry.gems.relist('a 1 x\nb 1 x\n')
  await get(url)
  registry.gems.relist('a 2 y\nb 1 x\nc 1 x\n')
  t.true((await get(url)).body.equals(registry.gems.listed()))
  t.is(registry.count(list), 3)
  registry.gems.relist(`${registry.gems.listed()}d 1 x\n`)
  registry.instead = ({ headers }, response) =>
    headers.range !== undefined && Boolean(response.writeHead(206).end('\nz 1 x\n'))
  t.true((await get(url)).body.equals(registry.gems.listed()))
  t.is(registry.count(list), 5)
  t.like(await cache.counts(), { troubles: 0, passedOn: 0 })
})

test('a list that is not whole, or is not what its digest says, is not stored', async t => {
  const { registry, url, folder, cache, warnings } = await scene(t)
  const answers = [{ 'content-length': 100 }, { 'repr-digest': wholeDigest('other') }, { digest: wholeDigest('other') }]
  for (const headers of answers) {
    registry.instead = (_, response) => {
      response.writeHead(200, headers).write('a 1 x\n')
      return Boolean(headers['content-length'] ? setImmediate(() => response.destroy()) : response.end())
    }
    const answer = await get(url)
    t.is(answer.status, 307, JSON.stringify(headers))
    t.is(answer.headers.location, `${registry.bundler}versions`)
  }
  await comesTrue(async () => (await storedIn(folder)).length === 0)
  t.like(await cache.counts(), { entries: 0, bytes: 0, passedOn: answers.length })
  t.true(warnings.some(words => words.includes('a list is not whole')))
})

test('a list arrives at steps as it arrives at the cache, and ends there where it ends here', async t => {
  const { registry, url, folder, cache } = await scene(t)
  let breakOff = () => {}
  registry.instead = (_, response) => {
    response.writeHead(200).write('a 1 x\n')
    breakOff = () => void response.destroy()
    return true
  }
  const first = await fetch(url, { redirect: 'manual' })
  t.is(first.status, 200)
  const reader = first.body!.getReader()
  t.is(Buffer.from((await reader.read()).value!).toString(), 'a 1 x\n')
  breakOff()
  await t.throwsAsync(reader.read())
  t.is((await cache.counts())!.entries, 0)
  await comesTrue(async () => (await storedIn(folder)).length === 0)
  registry.instead = (_, response) =>
    Boolean(response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('a 1 x\nb 1 x\n')))
  t.is((await get(url)).body.toString(), 'a 1 x\nb 1 x\n')
  t.is((await storedIn(folder)).length, 1)
})

test('a list is used as it was where the registry does not answer, and the registry has it where the cache has no room', async t => {
  const { registry, url, folder } = await scene(t)
  registry.gems.publish('tiny', '1.0.0')
  const before = registry.gems.listed()
  await get(url)
  registry.gems.publish('tiny', '1.0.1')
  for (const status of [503, 429]) {
    registry.instead = (_, response) => Boolean(response.writeHead(status).end())
    t.true((await get(url)).body.equals(before))
  }
  const silent = await scene(t)
  silent.registry.gems.publish('tiny', '1.0.0')
  const known = silent.registry.gems.listed()
  await get(silent.url)
  silent.registry.instead = () => true
  t.true((await get(silent.url)).body.equals(known), 'after 5 s')
  await damageStored(folder)
  t.is((await get(url)).status, 307)
  registry.instead = (_, response) => Boolean(response.writeHead(404).end())
  t.is((await get(url)).status, 404)
  const small = await scene(t, { maxBytes: MiB })
  small.registry.gems.relist(lines(2 * MiB))
  t.is((await get(small.url)).status, 307)
  small.registry.gems.relist(lines(0.6 * MiB))
  t.is((await get(small.url)).status, 200)
  small.registry.gems.publish('tiny', '1.0.2')
  t.is((await get(small.url)).status, 307, 'nor has it room for what was added')
})
