import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createKey } from '../../db/accounts/accounts.ts'
import { type Db, openDatabase } from '../../db/database.ts'
import { setWebhook } from '../../db/git/webhooks.ts'
import { claimInstallation } from '../../db/installation.ts'
import { thisMachine } from '../../lib/machine.ts'
import { newWebhookAddress } from '../../policy/git/webhooks/addresses.ts'
import { sealKeys } from '../../policy/seal.ts'
import { accountOf, fillMany, idOf, type ManyRows } from '../../test/kit/rows/many-rows.ts'
import { startProxy, type TestProxy } from '../../test/kit/servers/proxy.ts'
import { heapFlags } from '../../workers/supervisor/heap.ts'
import { threadPool } from '../../workers/supervisor/thread-pool.ts'
import { startApi, startProgram } from '../kit/programs.ts'

export const masterKey = 'ab'.repeat(32)
export const webhookSecret = 'bench secret'
export const hostId = 'h1'

/** Everything was started in the boot that this machine is in: nothing is to be mended. */
export const bootId = thisMachine().bootId ?? 'unknown'

/** Where the host of an installation has the files of applications. */
export const volumesOf = (folder: string): string => join(folder, 'data/hosts', hostId, 'folders')

/** One of the installations that are compared, with its own processes. */
export interface Installation {
  name: string
  sizes: ManyRows
  folder: string
  databaseUrl: string
  db: Db
  api: { child: ChildProcess; url: string; blobUrl: string }
  /** Of one account with ten applications, and the applications. */
  key: string
  apps: string[]
  /** Addresses of their webhooks. */
  webhooks: string[]
  proxy: TestProxy
  /** Address of an engine in which all that runs by the rows runs. */
  engineUrl: string
  stop(): Promise<void>
}

export interface InstallationParts {
  name: string
  sizes: ManyRows
  /** Thrown away by the caller. */
  folder: string
  /** Of an empty, migrated database. */
  databaseUrl: string
}

/** Fills a database and starts what serves it: one API process, an engine that is made up, and a proxy. */
export async function startInstallation({
  name,
  sizes,
  folder,
  databaseUrl,
}: InstallationParts): Promise<Installation> {
  const filler = openDatabase({ url: databaseUrl, pool: 1, statementTimeoutMs: 1_800_000 })
  const began = performance.now()
  await fillMany(filler, sizes)
  console.error(`${name}: filled in ${((performance.now() - began) / 1000).toFixed(0)} s`)
  await filler.destroy()
  const db = openDatabase({ url: databaseUrl, pool: 10, applicationName: 'berth-bench' })
  await claimInstallation(db, name)
  // No process says so here: the host answers for as long as a bench takes.
  await db('hosts').update({ last_seen_at: '2100-01-01', boot_id: bootId, routed_boot_id: bootId })
  await db('apps').whereNotNull('boot_id').update({ boot_id: bootId })
  const volumes = volumesOf(folder)
  for (const { id } of await db('apps').select('id')) await mkdir(join(volumes, id), { recursive: true })

  const ownerId = accountOf(1)
  const { key } = await createKey(db, masterKey, { userId: ownerId })
  const apps = Array.from({ length: 10 }, (_, n) => idOf('app', n + 1))
  const webhooks: string[] = []
  for (const appId of apps)
    webhooks.push(
      await setWebhook(db, sealKeys(masterKey), {
        appId,
        address: newWebhookAddress(masterKey),
        token: 'x',
        secret: webhookSecret,
      }),
    )
  const api = await startApi({ databaseUrl, masterKey, folder }, threadPool, heapFlags)
  const engine = await startEngine(db, join(folder, 'engine.sock'))
  const proxy = await startProxy()
  return {
    ...{ name, sizes, folder, databaseUrl, db, api, key, apps, webhooks, proxy, engineUrl: engine.url },
    async stop() {
      api.child.kill('SIGKILL')
      const engineEnded = once(engine.child, 'exit')
      engine.child.disconnect() // it removes its control groups
      await engineEnded
      await proxy.stop()
      await db.destroy()
    },
  }
}

async function startEngine(db: Db, socket: string): Promise<{ child: ChildProcess; url: string }> {
  const running = await db('apps')
    .where({ status: 'running' })
    .select('id as app', 'owner_id as owner', 'release', 'container_id as containerId')
    .select('host_port as port', 'host_address as address')
  const { child, reported } = await startProgram<{ url: string }>('../growth/engine.ts', [], {}, [], {
    hostId,
    running,
    socket,
  })
  return { child, url: reported.url }
}
