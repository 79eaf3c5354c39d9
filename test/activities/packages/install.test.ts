import test from 'ava'
import { bridgeName, chainName } from '../../../activities/containers/network-names.ts'
import { iptablesFirewall } from '../../../activities/firewall/iptables.ts'
import { imageRegistries } from '../../../activities/packages/discovery.ts'
import { runProcess, systemEnvironment } from '../../../lib/child-process.ts'
import { packageManagers, registryKinds } from '../../../policy/packages/registries.ts'
import { type Files, textIn } from '../../kit/hosts/installs.ts'
import { packageSteps } from '../../kit/hosts/package-steps.ts'
import { toolImages } from '../../kit/hosts/tool-images.ts'
import { demandRoot } from '../../kit/root.ts'

/* Install steps in real build containers, with the real npm and pip, on a host whose cache stands in for a scripted registry. */
const images = {
  ...{ npm: 'berth/node:22', pip: 'berth/python:3.11', go: 'berth/go:1.24' },
  ...{ cargo: toolImages.rust, maven: toolImages.java, bundler: toolImages.ruby },
}
const { docker, network, scene, gateway } = packageSteps(Object.values(images))
// A name of a host's chains: other firewalls of this machine take any other for rules of a stranger.
const names = {
  name: chainName(docker.run),
  bridges: `${bridgeName({ name: docker.network, labels: network.labels })}`,
  resolvers: [],
}

test.serial.after.always(() =>
  iptablesFirewall({ ...names, builds: { bridges: bridgeName(network), proxies: [] } }).remove(),
)

const manifest = (dependencies: Record<string, string>): Files => ({
  'index.js': '',
  'package.json': JSON.stringify({ dependencies }),
})
const python = { language: 'python', runtimeVersion: '3.11', main: 'main.py' } as const

test.serial('npm: two accounts install the same package, which is downloaded once', async t => {
  t.timeout(110_000)
  const { registry, app, cache } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  registry.publish('@own/scoped', '2.0.0')
  const files = manifest({ tiny: '^1.0.0', '@own/scoped': '*' })
  for (const one of [await app(), await app()]) {
    const { folders } = await one.push(files)
    t.is(JSON.parse((await textIn(folders.dependencies, 'tiny/package.json'))!).version, '1.0.0')
    t.is(JSON.parse((await textIn(folders.dependencies, '@own/scoped/package.json'))!).version, '2.0.0')
  }
  t.is(registry.count(path), 1)
  t.like(await cache.counts(), { hits: 2, downloads: 2, troubles: 0, passedOn: 0 })
})

test.serial(
  'npm: addresses of a lock file are those of the cache, and the result is the same with and without one',
  async t => {
    t.timeout(110_000)
    const { registry, app, cache, host } = await scene(t)
    const { path, integrity } = registry.publish('tiny', '1.0.0')
    let printed = ''
    const ask = docker.spec('npm config get registry', { image: images.npm })
    await docker.host.runToEnd(
      ask,
      text => {
        printed += text
      },
      AbortSignal.timeout(30_000),
    )
    // What npm takes for the registry that is configured, whichever that is.
    const resolved = `${printed.trim()}tiny/-/tiny-1.0.0.tgz`
    const lock = {
      lockfileVersion: 3,
      packages: {
        '': { dependencies: { tiny: '^1.0.0' } },
        'node_modules/tiny': { version: '1.0.0', resolved, integrity },
      },
    }
    const files = { ...manifest({ tiny: '^1.0.0' }), 'package-lock.json': JSON.stringify(lock) }
    const first = await (await app()).push(files)
    t.is(registry.count(path), 1)
    t.deepEqual(registry.requests.sort(), [`GET ${path}`, 'GET /npm/tiny/1.0.0'])
    const { push } = await app()
    const second = await push(files)
    t.is(registry.count(path), 1)
    t.like(await cache.counts(), { hits: 1, downloads: 1, troubles: 0, passedOn: 0 })
    const hidden = async ({ folders }: typeof first) => textIn(folders.dependencies, '.package-lock.json')
    t.is(await hidden(first), await hidden(second))
    t.false((await hidden(first))?.includes(gateway()))
    // The key does not depend on the cache: its result is used again without it.
    Object.assign(host, { packages: undefined })
    const third = await push({ ...files, 'index.js': 'x' })
    t.false(third.installs)
    t.regex(third.words, /^reused from release/)
  },
)

test.serial('a build without the cache asks the registry itself, which may no longer have a package', async t => {
  t.timeout(110_000)
  const { registry, app, specs } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  const { push } = await app()
  const files = manifest({ tiny: '1.0.0' })
  await push(files)
  registry.unpublish(path)
  t.true((await push({ ...files, '.npmrc': 'fund=false' })).installs, 'the cache has it')
  await t.throwsAsync(push(files, {}, { clean: true }), { message: /exit code 1/ })
  t.false(/NPM_CONFIG_REGISTRY/.test(specs.at(-1)!.command.join(' ')))
})

test.serial('pip: two accounts install the same wheel, which is downloaded once', async t => {
  t.timeout(110_000)
  const { registry, app, cache } = await scene(t)
  const { path } = registry.publishWheel('tiny', '1.0.0')
  for (const one of [await app(), await app()]) {
    const { folders } = await one.push({ 'main.py': '', 'requirements.txt': 'tiny>=1\n' }, python)
    t.is(await textIn(folders.dependencies, 'tiny.py'), 'version = "1.0.0"\n')
  }
  t.is(registry.count(path), 1)
  // pip reads what a wheel requires from the file next to it.
  t.is(registry.count(`${path}.metadata`), 1)
  t.like(await cache.counts(), { downloads: 2, troubles: 0, passedOn: 0 })
})

test.serial('a project that names a registry or credentials never reaches the cache', async t => {
  t.timeout(170_000)
  const { registry, app, cache, specs } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  registry.publishWheel('tiny', '1.0.0')
  const { push } = await app()
  const npmrcs = [`registry=${registry.npm}`, `//${gateway()}:${registry.port}/npm/:_authToken=secret`]
  for (const npmrc of npmrcs) await push({ ...manifest({ tiny: '1.0.0' }), '.npmrc': npmrc })
  t.is(registry.headers().authorization, 'Bearer secret')
  const page = `--index-url ${registry.pip}\ntiny\n`
  await push({ 'main.py': '', 'requirements.txt': page }, python)
  t.is(registry.count(path), 2)
  t.is(await cache.counts(), null, 'its process did not even start')
  t.true(specs.every(({ command }) => !/NPM_CONFIG_REGISTRY|PIP_INDEX_URL/.test(command.join(' '))))
})

test.serial('a step that fails with the cache is tried once more without it, and its log says so', async t => {
  t.timeout(110_000)
  const { registry, app, host } = await scene(t)
  registry.publish('tiny', '1.0.0')
  registry.publishWheel('tiny', '1.0.0')
  const nowhere = `http://${gateway()}:9/`
  const env = { NPM_CONFIG_REGISTRY: nowhere, PIP_INDEX_URL: nowhere }
  Object.assign(host, {
    packages: { use: async () => ({ env, install: (text: string) => text, hadTrouble: async () => true }) },
  })
  const { push } = await app()
  const node = await push(manifest({ tiny: '1.0.0' }))
  t.not(await textIn(node.folders.dependencies, 'tiny/package.json'), null)
  t.regex(node.log, /could not be installed from the cache of the host\. They are requested from the registry now/)
  const wheel = await push({ 'main.py': '', 'requirements.txt': 'tiny\n' }, python)
  t.not(await textIn(wheel.folders.dependencies, 'tiny.py'), null)
  t.regex(wheel.log, /could not be installed from the cache/)
})

test.serial('a step that fails by itself fails once', async t => {
  t.timeout(110_000)
  const { registry, app, specs } = await scene(t)
  registry.publish('tiny', '1.0.0')
  const { push } = await app()
  const files = {
    ...manifest({ tiny: '1.0.0' }),
    'package.json': '{"dependencies":{"tiny":"1.0.0"},"scripts":{"postinstall":"exit 3"}}',
  }
  await t.throwsAsync(push(files), { message: /exit code 3/ })
  t.is(specs.length, 1)
})

test.serial('the tools of an image say which registry they use, whatever that is', async t => {
  t.timeout(110_000)
  const asks = imageRegistries()
  const own = {
    npm: 'npm config get registry',
    pip: 'python3 -m pip install --help',
    go: 'go env GOPROXY',
    cargo: packageManagers.cargo.query,
    maven: packageManagers.maven.query,
    bundler: packageManagers.bundler.query,
  }
  for (const kind of registryKinds) {
    const spec = docker.spec('', { image: images[kind], network: network.name, memoryMb: 512 })
    let printed = ''
    await docker.host.runToEnd(
      { ...spec, command: ['sh', '-c', own[kind]] },
      text => {
        printed += text
      },
      AbortSignal.timeout(60_000),
    )
    const request = { kind, engine: docker.host, spec, signal: AbortSignal.timeout(60_000) }
    const asked = await asks(request)
    t.true('url' in asked, JSON.stringify(asked))
    t.true(printed.replace(/\s+/g, ' ').includes(('url' in asked ? asked.url : '').slice(0, -1)))
    let runs = 0
    const counted = {
      ...docker.host,
      imageId: docker.host.imageId,
      runToEnd: async () => ({ exitCode: runs++, oom: false }),
    }
    t.deepEqual(await asks({ ...request, engine: counted }), asked)
    t.is(runs, 0, 'an image is asked once')
    const other = {
      ...request,
      spec: {
        ...spec,
        env: {
          ...{ NPM_CONFIG_REGISTRY: 'https://mirror.test/npm', PIP_INDEX_URL: 'https://mirror.test/npm' },
          GOPROXY: 'https://mirror.test/npm,direct',
        },
      },
    }
    // The others have no variable for it.
    t.deepEqual(
      await imageRegistries()(other),
      ['cargo', 'maven', 'bundler'].includes(kind) ? asked : { url: 'https://mirror.test/npm/' },
    )
  }
})

test.serial('builds reach the cache through the firewall; applications do not', async t => {
  t.timeout(110_000)
  demandRoot()
  let endpoints = (): { address: string; port: number }[] => []
  const firewall = iptablesFirewall({
    ...{ ...names, builds: { bridges: bridgeName(network), proxies: [] } },
    proxies: () => endpoints(),
  })
  const { registry, app, cache } = await scene(t, { open: () => firewall.apply() })
  endpoints = cache.endpoints
  // The registry is reached by the process of the cache only: its port is open to no container.
  const { path } = registry.publish('tiny', '1.0.0')
  const { folders } = await (await app()).push(manifest({ tiny: '1.0.0' }))
  t.not(await textIn(folders.dependencies, 'tiny/package.json'), null)
  t.is(registry.count(path), 1)
  const [{ address, port } = { address: '', port: 0 }] = cache.endpoints()
  const reach = async (net: string): Promise<number> => {
    const script = `process.exitCode = 6; require('node:http').get('http://${address}:${port}/npm/tiny')
      .on('response', answer => process.exit(answer.statusCode === 200 ? 0 : 4)).on('error', () => process.exit(5))`
    const spec = docker.spec(`node -e "${script}"`, { network: net })
    return (await docker.host.runToEnd(spec, () => {}, AbortSignal.timeout(30_000))).exitCode
  }
  t.is(await reach(network.name), 0)
  t.not(await reach(docker.network), 0)
  // Without rules, as on a host whose firewall is off, the cache itself refuses them.
  await firewall.remove()
  t.is(await reach(network.name), 0)
  t.not(await reach(docker.network), 0)
})

test.serial('a build that does not reach the cache does without it immediately, and the host says so', async t => {
  t.timeout(110_000)
  demandRoot()
  const { registry, app, cache, specs } = await scene(t)
  const { path } = registry.publish('tiny', '1.0.0')
  registry.publishWheel('tiny', '1.0.0')
  const { push } = await app()
  await push(manifest({ tiny: '1.0.0' }))
  t.is(cache.fault(), null)
  // Not among the rules that firewalls of other hosts on this machine look at.
  const rule = (change: string, address: string, port: number) =>
    runProcess(
      'iptables',
      ['-w', '-t', 'raw', change, 'PREROUTING', '-d', address, '-p', 'tcp', '--dport', String(port), '-j', 'DROP'],
      { env: systemEnvironment },
    )
  await push({ 'main.py': '', 'requirements.txt': 'tiny\n' }, python)
  const dropped = cache.endpoints()
  t.is(dropped.length, 2)
  // As the firewall of a machine that lets nothing in: package managers would wait for minutes.
  for (const { address, port } of dropped) await rule('-I', address, port)
  try {
    const node = await push(manifest({ tiny: '1.x' }))
    t.not(await textIn(node.folders.dependencies, 'tiny/package.json'), null)
    t.regex(node.log, /The cache of packages of the host is not reached/)
    t.regex(cache.fault() ?? '', /no build reaches it: open 10\./)
    const wheel = await push({ 'main.py': 'x', 'requirements.txt': 'tiny>=1\n' }, python)
    t.regex(wheel.log, /The cache of packages of the host is not reached/)
    t.is(specs.length, 4, 'none was tried again')
  } finally {
    for (const { address, port } of dropped) await rule('-D', address, port)
  }
  t.is(registry.count(path), 2)
  await push(manifest({ tiny: '>=1.0.0' }))
  t.is(cache.fault(), null)
  t.is(registry.count(path), 2)
})

test.serial('a build that uses a proxy reaches the cache without it', async t => {
  t.timeout(110_000)
  const { registry, app, cache, host } = await scene(t)
  registry.publish('tiny', '1.0.0')
  registry.publishWheel('tiny', '1.0.0')
  const nowhere = `http://${gateway()}:9`
  const traits = { ...host.traits, buildProxy: { http: nowhere, https: nowhere, none: 'internal.test' } }
  Object.assign(host, { traits })
  const { push } = await app()
  await push(manifest({ tiny: '1.0.0' }))
  await push({ 'main.py': '', 'requirements.txt': 'tiny\n' }, python)
  t.like(await cache.counts(), { downloads: 3, troubles: 0, passedOn: 0 })
})
