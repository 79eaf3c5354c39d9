import { hash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import type { Server } from 'node:http'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import { mayBeElsewhere } from '../../policy/packages/registries.ts'
import { endWithParent } from '../child-process/child-life.ts'
import { addressKey, archives } from './archives.ts'
import { hashOfFile } from './content-hash.ts'
import { documentText } from './document-files.ts'
import { documents } from './documents.ts'
import type {
  CachedRegistry,
  PackageCounts,
  PackageNetwork,
  PackageReply,
  PackageRequest,
  PackageStart,
} from './job.ts'
import { lists } from './lists.ts'
import { type RegistryPaths, registryPaths } from './registry.ts'
import { packageServer } from './server.ts'
import { keyFile, Store } from './store.ts'
import { upstreams } from './upstream.ts'
import { Uses } from './uses.ts'
import { warnings } from './warnings.ts'

// The process of the package cache: without privileges and environment, in one folder. It ends with the host process.

let started: { start: PackageStart; store: Store; key: Buffer } | null = null
/** By kind and address of the registry. */
const served = new Map<string, { port: number; server: Server; use(network: PackageNetwork): void }>()
const counts = { requests: 0, hits: 0, downloads: 0, troubles: 0, passedOn: 0 }
const uses = new Uses()
const warnFor = warnings(message => process.send?.({ kind: 'warning', message: message.slice(0, 500) }, () => {}))

async function begin(start: PackageStart): Promise<void> {
  // The path above the folder may be closed to the user that this process becomes.
  process.chdir(start.folder)
  if (start.owner !== null && process.getuid!() === 0) {
    process.setgroups!([])
    process.setgid!(start.owner)
    process.setuid!(start.owner)
  }
  process.umask(0o077)
  const store = await Store.open(start)
  started = { start, store, key: await linkKey() }
}

/** The key of earlier processes: stored documents contain what it has signed. */
async function linkKey(): Promise<Buffer> {
  const present = await readFile(keyFile).catch(() => null)
  if (present?.length === 32) return present
  const key = randomBytes(32)
  const file = await open(
    keyFile,
    constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW,
    0o600,
  )
  try {
    await file.writeFile(key)
  } finally {
    await file.close()
  }
  return key
}

async function serve(registry: CachedRegistry, network: PackageNetwork): Promise<number> {
  const name = `${registry.kind} ${registry.url}`
  const present = served.get(name)
  if (present) {
    present.use(network)
    return present.port
  }
  if (!started) throw new Error('The cache is not started.')
  if (served.size >= packageCacheRules.registries) throw new Error('Too many registries are in use.')
  const { start, store, key } = started
  const named = new Set(registry.isNamed ? [new URL(registry.url).origin] : [])
  let current = { text: JSON.stringify(network), open: upstreams(network, named) }
  const parts = {
    store,
    counts,
    warn: warnFor(name),
    get: (...request: Parameters<typeof current.open.get>) => current.open.get(...request),
  }
  const document = documents(parts)
  let paths: RegistryPaths | null = null
  const server = packageServer({
    mayBeElsewhere: mayBeElsewhere(registry.kind, registry.isNamed),
    ...{ subnet: start.subnet, counts, uses, document, archive: archives(parts), list: lists(parts) },
    paths: () => paths!,
  })
  const port = await listen(server, start.address, name)
  paths = registryPaths({
    ...{ registry, key, origin: `http://${start.address}:${port}` },
    read: async (target, asker) => {
      const answer = await document(target, asker)
      return answer.kind === 'document' ? documentText(answer) : null
    },
    hashOf: async (url, algorithm, asker) => {
      const stored = await store.find(addressKey('archive', url), null, asker).catch(() => null)
      return stored && hashOfFile(stored, algorithm, asker.signal).finally(stored.close)
    },
  })
  const use = (changed: PackageNetwork) => {
    const text = JSON.stringify(changed)
    if (text === current.text) return
    current.open.close()
    current = { text, open: upstreams(changed, named) }
  }
  served.set(name, { port, server, use })
  return port
}

/** Ports for a registry, the preferred one first: the same ones in every process. */
function portsFor(name: string): number[] {
  const { first, count } = packageCacheRules.ports
  const start = Number.parseInt(hash('sha256', name).slice(0, 8), 16)
  return Array.from({ length: 20 }, (_, n) => first + ((start + n * 97) % count))
}

/** The same port as before, if it is free: documents name it. */
async function listen(server: Server, address: string, name: string): Promise<number> {
  for (const port of portsFor(name)) {
    try {
      server.listen(port, address)
      await once(server, 'listening')
      return port
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
  }
  throw new Error('No port is free.')
}

function countsNow(): PackageCounts {
  return { ...counts, ...(started?.store.size() ?? { entries: 0, bytes: 0 }) }
}

async function reply(request: PackageRequest): Promise<PackageReply> {
  const { id } = request
  switch (request.kind) {
    case 'start':
      await begin(request.start)
      return { id, kind: 'started' }
    case 'serve':
      return { id, kind: 'serving', port: await serve(request.registry, request.network) }
    case 'counts':
      return { id, kind: 'counts', ...countsNow() }
    case 'begin':
      uses.begin(request.token)
      return { id, kind: 'begun' }
    case 'end': {
      const use = uses.end(request.token)
      if (!use) throw new Error('The cache does not know the step.')
      return { id, kind: 'ended', ...use }
    }
  }
}

process.on('message', (request: PackageRequest) => {
  const failed = (error: Error): PackageReply => ({ id: request.id, kind: 'failed', message: error.message })
  void reply(request)
    .catch(failed)
    .then(answer => process.send?.(answer, () => {}))
})
process.once('disconnect', () => process.exit(0))
endWithParent()
