import { mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises'
import { type IncomingHttpHeaders, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import type { ContainerSpec } from '../../../activities/containers/port.ts'
import type { PackageUse } from '../../../activities/packages/port.ts'
import {
  type PackageCacheOptions,
  type PackageCacheProcess,
  packageCache,
} from '../../../activities/packages/process.ts'
import { MiB } from '../../../lib/bytes.ts'
import type { RegistryKind } from '../../../policy/packages/registries.ts'
import type { PackageRegistry } from './package-registry.ts'

export interface TestPackages {
  cache: PackageCacheProcess
  folder: string
  warnings: string[]
}

/** The cache of a host, in a folder that the test removes. */
export async function testPackages(
  t: Pick<ExecutionContext, 'teardown'>,
  options: Pick<PackageCacheOptions, 'network' | 'named'> & Partial<PackageCacheOptions>,
): Promise<TestPackages> {
  const parent = await mkdtemp(join(tmpdir(), 'berth-packages-'))
  const warnings: string[] = []
  const cache = packageCache({
    ...{ folder: join(parent, 'packages'), maxBytes: 64 * MiB, freeBytes: 0 },
    ...{ proxy: null, bundle: async () => null, open: async () => {} },
    warn: (facts, message) =>
      void warnings.push(`${message} ${JSON.stringify({ ...facts, err: String((facts as { err?: unknown }).err) })}`),
    ...options,
  })
  t.teardown(async () => {
    await cache.close()
    await rm(parent, { recursive: true, force: true })
  })
  return { cache, folder: join(parent, 'packages'), warnings }
}

const network = { name: 'builds', labels: {} }

/** A cache that answers `127.0.0.0/24` as if it were the network of builds: each address there is a container. */
export async function loopbackPackages(
  t: Pick<ExecutionContext, 'teardown'>,
  options: Pick<PackageCacheOptions, 'named'> & Partial<PackageCacheOptions> & { subnet?: string; asked?: string },
) {
  const { subnet = '127.0.0.0/24', asked = '', ...rest } = options
  const packages = await testPackages(t, { network, ...rest })
  const engine = {
    ensureNetwork: async () => {},
    listNetworks: async () => [{ name: 'builds', bridge: null, subnet }],
    imageId: async () => 'sha256:image',
    runToEnd: async (_: ContainerSpec, onOutput: (text: string) => void | Promise<void>) => {
      await onOutput(asked)
      return { exitCode: 0, oom: false }
    },
  }
  const spec = { image: 'image', env: {}, binds: [] } as unknown as ContainerSpec
  const use = async (kind: RegistryKind = 'npm'): Promise<PackageUse | null> =>
    packages.cache.use({ kind, engine, spec, signal: AbortSignal.timeout(60_000) })
  /** The address of the cache for a kind of registry. */
  const base = async (kind: RegistryKind = 'npm'): Promise<string> => {
    const used = await use(kind)
    if (!used) throw new Error(`A step does without the cache: ${packages.warnings.join(', ')}`)
    const [text = ''] = /http:[^',]+/.exec(used.install('')) ?? []
    return new URL(text).origin
  }
  return { ...packages, use, base }
}

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
}

export interface GetOptions {
  headers?: Record<string, string>
  method?: string
  /** Address of the container. */
  from?: string
}

/** One request from a container, on a connection of its own. Rejects when the answer is cut off. */
export function get(
  url: string,
  { headers = {}, method = 'GET', from = '127.0.0.2' }: GetOptions = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = { method, headers, localAddress: from, agent: false, path: url.slice(new URL(url).origin.length) }
    request(new URL(url), options, response => {
      const pieces: Buffer[] = []
      response.on('data', piece => pieces.push(piece))
      response.once('error', reject)
      response.once('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(pieces) }),
      )
    })
      .once('error', reject)
      .end()
  })
}

/** The id of the process that works in a folder; rejects without one. */
export async function processIn(folder: string): Promise<number> {
  for (const name of await readdir('/proc')) {
    const cwd = /^\d+$/.test(name) ? await readlink(`/proc/${name}/cwd`).catch(() => '') : ''
    if (cwd === folder) return Number(name)
  }
  throw new Error(`No process works in ${folder}.`)
}

/** The process of the cache that works in a folder is killed once, after the first 20 bytes of this download. */
export function killDuringDownload(registry: PackageRegistry, folder: string, path: string, bytes: Buffer): void {
  let kills = 0
  registry.instead = ({ url }, response) => {
    if (url !== path || kills++ > 0) return false
    response.writeHead(200, { 'content-length': bytes.length }).write(bytes.subarray(0, 20))
    void processIn(folder).then(pid => process.kill(pid, 'SIGKILL'))
    return true
  }
}

/** A field of the status of a process. */
export async function statusOf(pid: number, field: string): Promise<string> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8')
  return new RegExp(`^${field}:[ \\t]*(.*?)\\s*$`, 'm').exec(text)?.[1] ?? ''
}

/** Names of stored files. */
export const storedIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter(name => name !== 'link.key').sort()

/** Replaces the content of every stored file by as many zeros. */
export async function damageStored(folder: string): Promise<void> {
  for (const name of await storedIn(folder)) {
    const file = join(folder, name)
    await writeFile(file, Buffer.alloc((await stat(file)).size))
  }
}

/** Whether every stored file that is whole is a document, and none an archive. */
export async function hasDocumentsAlone(folder: string): Promise<boolean> {
  const names = (await storedIn(folder)).filter(name => !name.endsWith('.part'))
  const contents = await Promise.all(names.map(name => readFile(join(folder, name))))
  return contents.every(content => content[0] === '{'.charCodeAt(0))
}

interface PassedOn {
  origin: string
  /** An address of the registry. */
  registry: string
  tamper(path: string, content: Buffer): void
}

/** Demands that the cache sends a request of each path to the registry, whose content for it is none that may be stored. */
export async function demandPassedOn(
  t: ExecutionContext,
  wrong: readonly (readonly [path: string, content: Buffer])[],
  { origin, registry, tamper }: PassedOn,
): Promise<void> {
  for (const [path, content] of wrong) {
    tamper(path, content)
    const answer = await get(origin + path)
    t.is(answer.status, 307)
    t.is(answer.headers.location, new URL(registry).origin + path)
  }
}
