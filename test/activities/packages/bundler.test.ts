import test from 'ava'
import { type Files, textIn } from '../../kit/hosts/installs.ts'
import { packageRegistry } from '../../kit/hosts/package-registry.ts'
import { packageSteps } from '../../kit/hosts/package-steps.ts'
import { damageStored, get, hasDocumentsAlone, killDuringDownload, loopbackPackages } from '../../kit/hosts/packages.ts'
import { toolImages } from '../../kit/hosts/tool-images.ts'

/* Gems: with the real bundler in build containers, and by requests as it makes them. */
const { scene, gateway } = packageSteps([toolImages.ruby])

async function requesting(t: Parameters<typeof loopbackPackages>[0]) {
  const registry = await packageRegistry()
  t.teardown(() => registry.close())
  const packages = await loopbackPackages(t, { named: registry.named })
  return { registry, ...packages, origin: await packages.base('bundler') }
}

/** Whatever RubyGems calls its usual registry. */
const usual = 'source Gem.default_sources.first\n'
const gemfile = (lines: string): Files => ({ 'main.rb': '', Gemfile: usual + lines })
const ruby = { language: 'ruby', runtimeVersion: '3.3', main: 'main.rb' } as const
const sourceOf = (gem: string) => `ruby/3.3.0/gems/${gem}/lib/${gem.split('-')[0]}.rb`
const lockOf = (checksum: string) =>
  'GEM\n  remote: https://rubygems.org/\n  specs:\n    tiny (1.0.0)\n\nPLATFORMS\n  ruby\n\nDEPENDENCIES\n  tiny\n\n' +
  `CHECKSUMS\n  tiny (1.0.0) sha256=${checksum}\n\nBUNDLED WITH\n   2.6.7\n`

test.serial('two accounts install the same gems, which are downloaded once, also with a lock file', async t => {
  t.timeout(170_000)
  const { registry, app, cache } = await scene(t)
  const tiny = registry.gems.publish('tiny', '1.0.0', { deep: '>= 1' })
  const deep = registry.gems.publish('deep', '1.5.0')
  for (const one of [await app(), await app()]) {
    const { folders } = await one.push(gemfile('gem "tiny"'), ruby)
    t.is(await textIn(folders.dependencies, sourceOf('tiny-1.0.0')), 'TINY = "1.0.0"\n')
    t.is(await textIn(folders.dependencies, sourceOf('deep-1.5.0')), 'DEEP = "1.5.0"\n')
    t.regex((await textIn(folders.source, 'Gemfile.lock')) ?? '', /remote: https:/, 'it names no cache')
  }
  for (const { archive } of [tiny, deep]) t.is(registry.count(archive), 1)
  t.like(await cache.counts(), { downloads: 2, hits: 2, troubles: 0, passedOn: 0 })
  const locked = {
    ...gemfile('gem "deep"'),
    'Gemfile.lock': lockOf(deep.checksum).replaceAll('tiny (1.0.0)', 'deep (1.5.0)').replace('  tiny\n', '  deep\n'),
  }
  const { folders } = await (await app()).push(locked, ruby)
  t.not(await textIn(folders.dependencies, sourceOf('deep-1.5.0')), null)
  t.is(await textIn(folders.source, 'Gemfile.lock'), locked['Gemfile.lock'])
  t.like(await cache.counts(), { downloads: 2, hits: 3, troubles: 0, passedOn: 0 })
})

test.serial('a gem that its index or a lock file does not vouch for is neither stored nor installed', async t => {
  t.timeout(170_000)
  const { registry, app, cache, specs } = await scene(t)
  const { archive, bytes, checksum } = registry.gems.publish('tiny', '1.0.0')
  registry.tamper(archive, Buffer.concat([bytes, Buffer.from('x')]))
  const { push } = await app()
  await t.throwsAsync(push(gemfile('gem "tiny"'), ruby), { message: /exit code 37/ })
  t.is(specs.length, 2, 'builds may not reach a named registry, so it is tried without the cache')
  t.like(await cache.counts(), { downloads: 0, hits: 0 })
  registry.tamper(archive, bytes)
  const wrong = { ...gemfile('gem "tiny"'), 'Gemfile.lock': lockOf(checksum.replace(/../g, '00')) }
  await t.throwsAsync(push(wrong, ruby), { message: /exit code 37/ })
  const replaced = registry.gems.publish('tiny', '1.0.0', {}, 'other bytes')
  const { folders } = await push(gemfile('gem "tiny"'), ruby)
  t.not(await textIn(folders.dependencies, sourceOf('tiny-1.0.0')), null, 'the index names what is there now')
  t.not(replaced.checksum, checksum)
  t.like(await cache.counts(), { downloads: 1 })
})

test.serial('a build with bundler whose cache is killed during a download is tried once more without it', async t => {
  t.timeout(170_000)
  const { registry, app, folder } = await scene(t)
  const { archive, bytes } = registry.gems.publish('tiny', '1.0.0')
  killDuringDownload(registry, folder, archive, bytes)
  const { folders } = await (await app()).push(gemfile('gem "tiny"'), ruby)
  t.not(await textIn(folders.dependencies, sourceOf('tiny-1.0.0')), null)
  t.is(registry.count(archive), 2)
  t.true(await hasDocumentsAlone(folder), 'the next process has removed what was half-written')
})

test.serial(
  'a private source of a Gemfile stays as it is: the cache hears neither its address, its names nor its credentials',
  async t => {
    t.timeout(170_000)
    const { registry, app, cache } = await scene(t)
    registry.gems.publish('tiny', '1.0.0')
    const own = await packageRegistry(gateway())
    t.teardown(() => own.close())
    own.gems.publish('secret', '2.0.0')
    const address = own.bundler.replace('http://', 'http://user:password@')
    const files = gemfile(`gem "tiny"\nsource("${address}") { gem "secret" }\n`)
    const { folders } = await (await app()).push(files, ruby)
    t.not(await textIn(folders.dependencies, sourceOf('secret-2.0.0')), null)
    t.regex(own.headers().authorization ?? '', /^Basic /)
    t.false(registry.requests.some(one => one.includes('secret')))
    t.like(await cache.counts(), { downloads: 1, troubles: 0, passedOn: 0 })
  },
)

test.serial('a build with bundler that uses a proxy reaches the cache without it', async t => {
  t.timeout(170_000)
  const { registry, app, cache, host } = await scene(t)
  registry.gems.publish('tiny', '1.0.0')
  const nowhere = `http://${gateway()}:9`
  const buildProxy = { http: nowhere, https: nowhere, none: 'internal.test' }
  Object.assign(host, { traits: { ...host.traits, buildProxy } })
  await (await app()).push(gemfile('gem "tiny"'), ruby)
  t.like(await cache.counts(), { downloads: 1, troubles: 0, passedOn: 0 })
})

test('a gem is stored once its index vouches for it, and a damaged, replaced or unknown one is downloaded again', async t => {
  const { registry, origin, folder, cache } = await requesting(t)
  const { archive, info, bytes } = registry.gems.publish('tiny-2', '1.0.0')
  for (let n = 0; n < 2; n++) t.true((await get(origin + archive)).body.equals(bytes))
  t.is(registry.count(archive), 1)
  t.is((await get(origin + info)).body.toString(), await (await fetch(registry.bundler.replace('/gems/', info))).text())
  t.like(await cache.counts(), { downloads: 1, hits: 1, troubles: 0, passedOn: 0 })
  await damageStored(folder)
  t.true((await get(origin + archive)).body.equals(bytes))
  const replaced = registry.gems.publish('tiny-2', '1.0.0', {}, 'other bytes')
  t.true((await get(origin + archive)).body.equals(bytes), 'nobody has asked for its index since')
  await get(origin + info)
  t.true((await get(origin + archive)).body.equals(replaced.bytes))
  t.is(registry.count(archive), 3)
  registry.gems.yank('tiny-2', '1.0.0')
  t.notRegex((await get(origin + info)).body.toString(), /1\.0\.0/)
})

test('a gem that is another, or that its index does not name, is passed on', async t => {
  const { registry, origin, folder, cache, warnings } = await requesting(t)
  const { archive, bytes } = registry.gems.publish('tiny', '1.0.0')
  const other = registry.gems.publish('tiny', '1.0.1')
  registry.gems.yank('tiny', '1.0.1')
  const wrong: [string, Buffer][] = [
    [archive, Buffer.concat([bytes, Buffer.from('x')])],
    [archive, bytes.subarray(0, -1)],
    [archive, other.bytes],
    [other.archive, other.bytes],
  ]
  for (const [path, content] of wrong) {
    registry.tamper(path, content)
    const answer = await get(origin + path)
    t.is(answer.status, 307)
    t.is(answer.headers.location, registry.bundler.replace('/gems/', path))
  }
  t.like(await cache.counts(), { downloads: 0, passedOn: wrong.length })
  t.false(warnings.length === 0)
  await get(`${origin}/gems/info/tiny`)
  t.true(await hasDocumentsAlone(folder))
})

test('an index of gems is asked for nothing but lists, what it says about a gem, and archives', async t => {
  const { registry, origin } = await requesting(t)
  registry.gems.publish('tiny', '1.0.0')
  t.is((await get(`${origin}/gems/quick/Marshal.4.8/tiny-1.0.0.gemspec.rz`)).status, 404, 'the registry has none')
  registry.requests.length = 0
  for (const path of ['', 'api/v1/dependencies', 'specs.4.8.gz', 'info/', 'info/a/b', 'gems/tiny', 'versions/x'])
    t.is((await get(`${origin}/gems/${path}`)).status, 404, path)
  t.is((await get(`${origin}/gems/versions`, { headers: { authorization: 'x' } })).status, 403)
  t.deepEqual(registry.requests, [])
})
