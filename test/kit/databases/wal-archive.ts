import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { engineOf } from '../../../activities/databases/engines/select.ts'
import { hostedEngines } from '../../../activities/databases/hosted-engine.ts'
import { pointInTime } from '../../../activities/databases/point-in-time/point-in-time.ts'
import { walCopies } from '../../../activities/databases/point-in-time/wal-copies.ts'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'
import type { AppLocks } from '../../../activities/steps/app-locks.ts'
import type { Volumes } from '../../../activities/volumes/port.ts'
import type { Db } from '../../../db/database.ts'
import { pointInTimeRules, walFileName } from '../../../policy/databases/point-in-time.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { FakeContainerHost } from '../fakes/container-host.ts'

interface Place {
  volumes: Volumes
  hostId: string
  locks: AppLocks
}

/** What a host does for WAL files in its volumes, without engines: the test leaves the files. */
export async function walArchive(t: ExecutionContext, db: Db, { volumes, hostId, locks }: Place) {
  const root = mkdtempSync(join(tmpdir(), 'berth-archive-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const store = await filesystemStore(root)
  const held = async () => {}
  const engine = new FakeContainerHost()
  const hosted = hostedEngines({
    ...{ db, keys: sealKeys('ab'.repeat(32)), engine, volumes, engineOf, archives: true },
    ...{ domain: 'apps.localhost', address: '127.0.0.1', bind: '127.0.0.1' },
  })
  const traits = { id: hostId, runtime: 'runc' as const, configNames: [], buildProxy: null, caBundle: null }
  const copies = walCopies({ db, store, held })
  const options = { db, engine, volumes, hosted, traits, locks, store, copies, held, diskMb: () => 16 }
  return {
    part: pointInTime(options),
    /** The engine on the volume in this folder has finished a WAL file. */
    finish(volume: string, number: number): void {
      const bytes = Buffer.alloc(pointInTimeRules.fileBytes)
      randomBytes(64).copy(bytes, 100)
      bytes.writeBigUInt64LE(BigInt(number) * BigInt(bytes.length), 8)
      const archive = join(volume, 'files/wal')
      mkdirSync(archive, { recursive: true })
      writeFileSync(join(archive, walFileName({ timeline: 1, number })), bytes)
    },
  }
}
