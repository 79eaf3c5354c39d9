import test, { type ExecutionContext } from 'ava'
import type { ContainerSpec } from '../../../activities/containers/port.ts'
import { buildNetwork } from '../../../activities/containers/spec.ts'
import type { AppHostOptions } from '../../../activities/hosts/app-host-options.ts'
import type { PackageCacheOptions } from '../../../activities/packages/process.ts'
import { packageManagers } from '../../../policy/packages/registries.ts'
import { installingHosts } from './installs.ts'
import { packageRegistry } from './package-registry.ts'
import { testPackages } from './packages.ts'
import { toolImages, withToolImages } from './tool-images.ts'

/** Install steps in real build containers of these images, on hosts whose caches stand in for a scripted registry. To be called once, at the top of a test file. */
export function packageSteps(images: readonly string[]) {
  const { docker, hostOf } = installingHosts()
  const network = buildNetwork(docker.run)
  let gateway = ''

  test.before(async () => {
    for (const image of images) await docker.host.ensureImage(image)
    await docker.host.ensureNetwork(network)
    const found = (await docker.host.listNetworks(network.labels)).find(({ name }) => name === network.name)
    gateway = found!.subnet!.replace('0/24', '1')
  })

  /** A host whose images use the registry where nothing says otherwise; `specs` are the containers that it has run. */
  async function scene(t: ExecutionContext, options: Partial<PackageCacheOptions> = {}) {
    const registry = await packageRegistry(gateway)
    t.teardown(() => registry.close())
    const installing = await hostOf(t)
    const { named } = registry
    const packages = await testPackages(t, { network, named, ...options })
    const specs: ContainerSpec[] = []
    const { engine } = installing.host
    const { hostname } = new URL(registry.npm)
    const ofImage = {
      ...{ NPM_CONFIG_REGISTRY: registry.npm, NPM_CONFIG_FETCH_RETRIES: '0' },
      ...{ PIP_INDEX_URL: registry.pip, PIP_TRUSTED_HOST: hostname, PIP_RETRIES: '0' },
      ...{ GOPROXY: `${registry.go},direct` },
    }
    // cargo, Maven and bundler have no variable for it that a shell passes on.
    const withSettings = (image: string, text: string) => {
      if (image === toolImages.rust && !text.includes('replace-with'))
        return `${packageManagers.cargo.use(new URL(registry.cargo))}; ${text}`
      if (image === toolImages.java && !text.includes('mirrorOf'))
        return `${packageManagers.maven.use(new URL(registry.maven))}; ${text}`
      if (image === toolImages.ruby && !text.includes('mirror.'))
        return `${packageManagers.bundler.use(new URL(registry.bundler))}; ${text}`
      return text
    }
    const commandOf = ({ image, command: [shell = '', option = '', text = ''] }: ContainerSpec) => [
      ...[shell, option],
      withSettings(image, text),
    ]
    const runToEnd: AppHostOptions['engine']['runToEnd'] = (spec, ...rest) => {
      specs.push(spec)
      return engine.runToEnd({ ...spec, command: commandOf(spec), env: { ...ofImage, ...spec.env } }, ...rest)
    }
    Object.assign(installing.host, { packages: packages.cache, engine: withToolImages({ ...engine, runToEnd }) })
    return { registry, specs, ...installing, ...packages }
  }
  return { docker, network, scene, gateway: () => gateway }
}
