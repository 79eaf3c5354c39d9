import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { homedir } from 'node:os'
import { type DockerHostOptions, dockerHost } from '../../../activities/containers/docker/host.ts'
import { type ContainerSpec, labels } from '../../../activities/containers/port.ts'
import { recipes } from '../../../runtimes/recipes.ts'
import { rootfsMaker } from '../../../runtimes/rootfs.ts'
import { toolRecipes } from '../hosts/tool-images.ts'

export const dockerAddress = process.env.DOCKER_HOST ?? 'unix:///var/run/docker.sock'
const cache = process.env.XDG_CACHE_HOME ?? `${homedir()}/.cache`

const bring = rootfsMaker(`${cache}/berth/images`, process.arch, [...recipes(process.arch), ...toolRecipes])

/** Reports every image that it prepares, also one from the cache. */
const makeRootfs: typeof bring = (image, onProgress) => {
  onProgress?.(`${image}: brought`)
  return bring(image, onProgress)
}

/** The machine's real engine, under a label and a network of this run; `clean` removes all that carries it. */
export function realDocker(options: Pick<DockerHostOptions, 'started'> = {}) {
  const run = `test-${randomBytes(4).toString('hex')}`
  const host = dockerHost({ dockerHost: dockerAddress, makeRootfs, ...options })
  const network = `berth-${run}`
  let number = 0
  return {
    run,
    host,
    network,
    /** A small container of this run. */
    spec(command: string, change: Partial<ContainerSpec> = {}): ContainerSpec {
      return {
        name: `berth-${run}-${++number}`,
        image: 'berth/node:22',
        command: ['sh', '-c', command],
        env: {},
        labels: { [labels.host]: run },
        user: '10001:10001',
        workingDir: '/',
        memoryMb: 128,
        cpus: 1,
        pidsLimit: 64,
        network,
        binds: [],
        publish: null,
        stopTimeoutSeconds: 5,
        runtime: 'runc',
        tmpMb: 16,
        ...change,
      }
    },
    async prepare(): Promise<void> {
      await host.ensureImage('berth/node:22')
      await host.ensureNetwork({ name: network, labels: { [labels.host]: run } })
    },
    async clean(...networks: string[]): Promise<void> {
      for (const { name } of await host.list({ [labels.host]: run })) await host.remove(name)
      for (const name of [network, ...networks]) await host.removeNetwork(name)
    },
  }
}

/** Queries the engine for what the port does not return, such as the address of a container. */
// biome-ignore lint/suspicious/noExplicitAny: the engine's own JSON, of which each test picks a field
export function engineFact(path: string): Promise<any> {
  const url = new URL(dockerAddress.replace(/^tcp:/, 'http:'))
  const target = url.protocol === 'unix:' ? { socketPath: url.pathname } : { host: url.hostname, port: url.port }
  return new Promise((done, failed) => {
    request({ ...target, path }, async response => {
      let text = ''
      for await (const chunk of response) text += chunk
      done(JSON.parse(text))
    })
      .once('error', failed)
      .end()
  })
}
