import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import type { AppRow } from '../../../db/apps/apps.ts'
import type { Db } from '../../../db/database.ts'
import { hostReadKey } from '../../../policy/keys.ts'
import { serveHost } from '../../../workers/host/server/host-server.ts'
import { masterKey } from '../actors/api.ts'
import { FakeContainerHost } from '../fakes/container-host.ts'
import { type Contents, give, lay } from '../folders.ts'
import { log } from '../platform/platform.ts'

/** The server of a host that has volumes, and no containers yet; a database knows it under its id from here on. */
export async function fileHost(hostId: string, db?: Db) {
  const root = mkdtempSync(join(tmpdir(), 'berth-file-host-'))
  chmodSync(root, 0o755)
  const [volumes, locks] = [folderVolumes(root), appLocks()]
  const key = hostReadKey(masterKey, hostId)
  const engine = new FakeContainerHost()
  const own = { db: db as Db, engine, volumes, hostId, locks, key, address: '127.0.0.1', port: 0, log }
  const { url, server } = await serveHost(own)
  const row = {
    address: '127.0.0.1',
    read_url: url,
    memory_mb: 1,
    disk_mb: 1,
    last_seen_at: '2100-01-01',
    protections: {},
  }
  await db?.('hosts')
    .insert({ id: hostId, ...row })
    .onConflict('id')
    .merge(['read_url'])
  return {
    engine,
    volumes,
    locks,
    url,
    server,
    /** Gives an application of this host its files; resolves to where they are. */
    async bring(app: AppRow, contents: Contents = {}): Promise<string> {
      await volumes.ensure(app.id, 64, app.uid)
      const files = join(volumes.path(app.id), 'files')
      mkdirSync(files, { recursive: true })
      lay(files, contents)
      give(files, process.getuid?.() === 0 ? app.uid : process.getuid!())
      return files
    },
    async stop(): Promise<void> {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
      rmSync(root, { recursive: true, force: true })
    },
  }
}

export type FileHost = Awaited<ReturnType<typeof fileHost>>
