import test from 'ava'
import { type Files, textIn } from '../../kit/hosts/installs.ts'
import { packageRegistry } from '../../kit/hosts/package-registry.ts'
import { packageSteps } from '../../kit/hosts/package-steps.ts'
import {
  damageStored,
  demandPassedOn,
  get,
  hasDocumentsAlone,
  killDuringDownload,
  loopbackPackages,
} from '../../kit/hosts/packages.ts'
import { zipOf } from '../../kit/zips.ts'

/* Modules of Go: with the real go command in build containers, and by requests as it makes them. */
const { scene } = packageSteps(['berth/go:1.24'])

async function requesting(t: Parameters<typeof loopbackPackages>[0]) {
  const registry = await packageRegistry()
  t.teardown(() => registry.close())
  const packages = await loopbackPackages(t, { named: registry.named })
  return { registry, ...packages, origin: await packages.base('go') }
}

const program = (module: string, sums: string, version = 'v1.0.0'): Files => ({
  'go.mod': `module example.test/app\n\ngo 1.24\n\nrequire ${module} ${version}\n`,
  'go.sum': sums,
  'main.go': `package main\n\nimport "${module}"\n\nfunc main() { println(tiny.Version) }\n`,
})
/** The go command without its compiler, whose time is no matter of packages. */
const downloads = { build: 'GOPATH=/tmp/go go mod download && mkdir -p .berth && echo x > .berth/app' }
const go = { language: 'go', runtimeVersion: '1.24', main: 'main.go' } as const

test.serial('two accounts build with the same module, which is downloaded once', async t => {
  t.timeout(170_000)
  const { registry, app, cache } = await scene(t)
  const { zip, mod, sums } = registry.publishModule('example.test/Own/tiny', 'v1.0.0')
  for (const terms of [{}, downloads]) {
    const { folders } = await (await app()).push(program('example.test/Own/tiny', sums), go, terms)
    t.not(await textIn(folders.dependencies, 'app'), null)
  }
  for (const path of [zip, mod]) t.is(registry.count(path), 1, path)
  t.like(await cache.counts(), { downloads: 2, hits: 2, troubles: 0, passedOn: 0 })
})

test.serial(
  'an archive of a module with other files than the checksum database says is not stored, and its build fails',
  async t => {
    t.timeout(170_000)
    const { registry, app, cache } = await scene(t)
    const { zip, bytes, sums } = registry.publishModule('example.test/tiny', 'v1.0.0')
    registry.tamper(zip, zipOf({ 'example.test/tiny@v1.0.0/tiny.go': 'package tiny\n\nconst Version = "evil"\n' }))
    const { push } = await app()
    const files = program('example.test/tiny', sums)
    await t.throwsAsync(push(files, go, downloads), { message: /exit code 1/ })
    t.like(await cache.counts(), { downloads: 1 }, 'its go.mod alone')
    registry.tamper(zip, bytes)
    t.not(await textIn((await push(files, go, downloads)).folders.dependencies, 'app'), null)
    t.like(await cache.counts(), { downloads: 2 })
  },
)

test.serial('a build whose cache is killed during a download is tried once more without it', async t => {
  t.timeout(170_000)
  const { registry, app, folder } = await scene(t)
  const { zip, bytes, sums } = registry.publishModule('example.test/tiny', 'v1.0.0')
  killDuringDownload(registry, folder, zip, bytes)
  const { folders, log } = await (await app()).push(program('example.test/tiny', sums), go, downloads)
  t.not(await textIn(folders.dependencies, 'app'), null)
  t.regex(log, /could not be installed from the cache of the host/)
})

/** A host whose images have these variables. */
async function sceneWith(t: Parameters<typeof scene>[0], variables: Record<string, string>) {
  const made = await scene(t)
  const { runToEnd, ...engine } = made.host.engine
  const run: typeof runToEnd = (spec, ...rest) => runToEnd({ ...spec, env: { ...spec.env, ...variables } }, ...rest)
  Object.assign(made.host, { engine: { ...engine, runToEnd: run } })
  return made
}

test.serial('a module that an image names as private is not requested from the cache, and a public one is', async t => {
  t.timeout(170_000)
  const { registry, app, cache } = await sceneWith(t, { GOPRIVATE: 'private.test' })
  const { sums } = registry.publishModule('private.test/tiny', 'v1.0.0')
  const { zip, sums: publicSums } = registry.publishModule('example.test/tiny', 'v1.0.0')
  const inFolder = Object.entries(program('example.test/tiny', publicSums)).map(([name, text]) => [
    `public/${name}`,
    text,
  ])
  const files = { ...program('private.test/tiny', sums), ...Object.fromEntries(inFolder) }
  const build = `(cd public && GOPATH=/tmp/go go mod download) && ${downloads.build}`
  await t.throwsAsync((await app()).push(files, go, { build }), { message: /exit code 1/ })
  t.is(registry.count(zip), 1)
  t.false(registry.requests.some(request => request.includes('private.test')))
  t.like(await cache.counts(), { downloads: 2, passedOn: 0 })
})

const unchecked: Record<string, string>[] = [{ GONOSUMDB: 'private.test' }, { GOSUMDB: 'off' }]
for (const variables of unchecked)
  test.serial(
    `a step with ${Object.keys(variables)} downloads without the cache, which would look modules up`,
    async t => {
      t.timeout(170_000)
      const { registry, app, cache } = await sceneWith(t, variables)
      const { zip, sums } = registry.publishModule('private.test/tiny', 'v1.0.0')
      const { log, folders } = await (await app()).push(program('private.test/tiny', sums), go, downloads)
      t.not(await textIn(folders.dependencies, 'app'), null)
      t.is(registry.count(zip), 1)
      t.false(registry.requests.some(request => request.includes('/sumdb/')))
      t.regex(log, /must not reach the checksum database/)
      t.like(await cache.counts(), { downloads: 0, passedOn: 0 })
    },
  )

test('files of a module are stored once the checksum database vouches for them, and damaged ones are downloaded again', async t => {
  const { registry, origin, folder, cache } = await requesting(t)
  const { zip, mod, lookup, bytes } = registry.publishModule('example.test/Own/tiny', 'v1.0.0')
  for (let n = 0; n < 2; n++) {
    t.true((await get(origin + zip)).body.equals(bytes))
    t.is((await get(origin + mod)).body.toString(), 'module example.test/Own/tiny\n')
  }
  for (const path of [zip, mod]) t.is(registry.count(path), 1, path)
  t.like(await cache.counts(), { downloads: 2, hits: 2, troubles: 0, passedOn: 0 })
  t.true(registry.count(lookup) > 0)
  await damageStored(folder)
  t.true((await get(origin + zip)).body.equals(bytes))
  t.is(registry.count(zip), 2)
})

test('files of a module that are others, or that no checksum database knows, are passed on', async t => {
  const { registry, origin, folder, cache, warnings } = await requesting(t)
  const { zip, mod, bytes } = registry.publishModule('example.test/tiny', 'v1.0.0')
  const other = zipOf({
    'example.test/tiny@v1.0.0/go.mod': 'module example.test/tiny\n',
    'example.test/tiny@v1.0.0/tiny.go': 'x',
  })
  const unpublished = zip.replace('v1.0.0', 'v1.0.1')
  const wrong: [string, Buffer][] = [
    [zip, other],
    [zip, bytes.subarray(0, -1)],
    [zip, Buffer.from('no archive')],
    [mod, Buffer.from('module evil\n')],
    [unpublished, bytes],
  ]
  await demandPassedOn(t, wrong, { origin, registry: registry.go, tamper: registry.tamper })
  t.like(await cache.counts(), { downloads: 0, passedOn: wrong.length })
  t.true(await hasDocumentsAlone(folder))
  t.true(warnings.some(words => words.includes('not what its document says')))
})

test('answers of the checksum database are passed on byte by byte, and nothing else of a proxy', async t => {
  const { registry, origin } = await requesting(t)
  const tile = Buffer.from(Array.from({ length: 256 }, (_, n) => n))
  registry.instead = ({ url }, response) => Boolean(url?.includes('/tile/') && response.end(tile))
  const { lookup, zip } = registry.publishModule('example.test/tiny', 'v1.0.0')
  t.regex((await get(origin + lookup)).body.toString(), /^17\nexample.test\/tiny v1.0.0 h1:/)
  for (const path of ['tile/8/0/x001/234', 'tile/8/1/005.p/17', 'tile/8/data/x001/x234/567'])
    t.true((await get(`${origin}/go/sumdb/sum.golang.org/${path}`)).body.equals(tile), path)
  t.is((await get(origin + zip.replace('.zip', '.info'))).status, 200)
  t.is((await get(`${origin}/go/example.test/tiny/@v/list`)).status, 404, 'the registry has none')
  registry.requests.length = 0
  for (const path of [
    'sumdb/other.test/supported',
    'example.test/tiny',
    'example.test/tiny/@v/v1.0.0.exe',
    '@v/list',
    'sumdb/sum.golang.org/tile/x',
  ])
    t.is((await get(`${origin}/go/${path}`)).status, 404, path)
  t.deepEqual(registry.requests, [])
})
