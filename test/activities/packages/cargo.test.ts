import test from 'ava'
import { type Files, textIn } from '../../kit/hosts/installs.ts'
import { packageRegistry } from '../../kit/hosts/package-registry.ts'
import { packageSteps } from '../../kit/hosts/package-steps.ts'
import { damageStored, get, hasDocumentsAlone, killDuringDownload, loopbackPackages } from '../../kit/hosts/packages.ts'
import { toolImages } from '../../kit/hosts/tool-images.ts'

/* Crates: with the real cargo in build containers, and by requests as it makes them. */
const { scene } = packageSteps([toolImages.rust])

async function requesting(t: Parameters<typeof loopbackPackages>[0]) {
  const registry = await packageRegistry()
  t.teardown(() => registry.close())
  const packages = await loopbackPackages(t, { named: registry.named })
  const origin = await packages.base('cargo')
  /** Where the cache serves archives, as its settings say. */
  const archives = async (): Promise<string> => {
    const { dl } = JSON.parse((await get(`${origin}/index/config.json`)).body.toString())
    return dl.replace('/{crate}/{version}.crate', '')
  }
  return { registry, ...packages, origin, archives }
}

const files: Files = {
  'Cargo.toml': '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nTiny = "1"\n',
  'src/main.rs': 'fn main() {}\n',
}
const rust = { language: 'rust', runtimeVersion: '1', main: 'src/main.rs' } as const
/** cargo without its compiler, whose time is no matter of packages. */
const downloads = { build: 'CARGO_HOME=/tmp/.cargo cargo fetch && mkdir -p .berth && cp Cargo.lock .berth/app' }

test.serial('two accounts build with the same crate, which is downloaded once', async t => {
  t.timeout(170_000)
  const { registry, app, cache } = await scene(t)
  const { archive } = registry.publishCrate('Tiny', '1.0.0')
  for (const one of [await app(), await app()]) {
    const { folders } = await one.push(files, rust, downloads)
    const lock = (await textIn(folders.dependencies, 'app')) ?? ''
    t.regex(lock, /name = "Tiny"\nversion = "1\.0\.0"\nsource = "registry\+https:/, 'the lock file names no cache')
  }
  t.is(registry.count(archive), 1)
  t.like(await cache.counts(), { downloads: 1, hits: 1, troubles: 0, passedOn: 0 })
})

test.serial('a build with cargo whose cache is killed during a download is tried once more without it', async t => {
  t.timeout(170_000)
  const { registry, app, folder } = await scene(t)
  const { archive, bytes } = registry.publishCrate('Tiny', '1.0.0')
  killDuringDownload(registry, folder, archive, bytes)
  const { folders, log } = await (await app()).push(files, rust, downloads)
  t.regex((await textIn(folders.dependencies, 'app')) ?? '', /name = "Tiny"/)
  t.regex(log, /could not be installed from the cache of the host/)
  t.is(registry.count(archive), 2)
})

test('a crate is stored once its index vouches for it, and a damaged one is downloaded again', async t => {
  const { registry, archives, folder, cache } = await requesting(t)
  registry.publishCrate('Tiny', '1.0.0')
  const { archive, bytes } = registry.publishCrate('Tiny', '1.0.1')
  const url = `${await archives()}/Tiny/1.0.1.crate`
  for (let n = 0; n < 2; n++) t.true((await get(url)).body.equals(bytes))
  t.is(registry.count(archive), 1)
  t.like(await cache.counts(), { downloads: 1, hits: 1, troubles: 0, passedOn: 0 })
  await damageStored(folder)
  t.true((await get(url)).body.equals(bytes))
  t.is(registry.count(archive), 2)
})

test('a crate that is another, or that its index does not name, is passed on', async t => {
  const { registry, archives, folder, cache } = await requesting(t)
  const { archive, bytes } = registry.publishCrate('Tiny', '1.0.0')
  const unknown = archive.replace('1.0.0', '1.0.1')
  const wrong: [string, Buffer][] = [
    [archive, Buffer.concat([bytes, Buffer.from('x')])],
    [archive, bytes.subarray(0, -1)],
    [unknown, bytes],
  ]
  const at = await archives()
  for (const [path, content] of wrong) {
    registry.tamper(path, content)
    const answer = await get(`${at}/Tiny/${path === unknown ? '1.0.1' : '1.0.0'}.crate`)
    t.is(answer.status, 307)
    t.is(answer.headers.location, registry.cargo.replace('/index/', '') + path)
  }
  t.like(await cache.counts(), { downloads: 0, passedOn: wrong.length })
  t.true(await hasDocumentsAlone(folder))
})

test('archives are downloaded only where the settings of an index say, and nothing else of it is served', async t => {
  const { registry, origin, archives, use } = await requesting(t)
  const { index } = registry.publishCrate('Tiny', '1.0.0')
  t.is(
    (await get(origin + index)).body.toString(),
    await (await fetch(registry.cargo.replace('/index/', '') + index)).text(),
  )
  const at = await archives()
  const [mac = ''] = at.slice(`${origin}/~/`.length).split('/')
  const forged = Buffer.from(JSON.stringify('http://127.0.0.1:1/{crate}')).toString('base64url')
  registry.requests.length = 0
  for (const path of [
    'index/',
    'index/ti/ny/other',
    'index/api/v1/crates',
    'crates/Tiny/Tiny-1.0.0.crate',
    `~/${mac}/${forged}/Tiny/1.0.0.crate`,
  ])
    t.is((await get(`${origin}/${path}`)).status, 404, path)
  for (const path of ['Tiny/1.0.0.zip', '-x/1.0.0.crate', 'Tiny/1.0.0/1.crate'])
    t.is((await get(`${at}/${path}`)).status, 404, path)
  t.deepEqual(registry.requests, [])
  t.true((await use('cargo'))!.install('').includes('/tmp/.cargo/config.toml'))
})
