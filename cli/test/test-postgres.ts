import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate, openDatabase } from '../../db/database.ts'
import { GiB } from '../../lib/bytes.ts'
import type { Supervisor } from '../../workers/supervisor/supervisor.ts'
import { unusedPort } from '../installation/ports.ts'
import { ensureDatabase, postgresProcess, postgresUrl } from '../services/postgres.ts'
import type { Say } from '../terminal/terminal.ts'

/** The migrated database that every test file clones. */
export const templateDatabase = 'berth_template'

export interface TestPostgres {
  /** The superuser's address of the database `postgres`. */
  adminUrl: string
  folder: string
}

/** A throw-away folder that other users can traverse, as Postgres must when we are root. */
export function throwAwayFolder(parent = tmpdir()): string {
  const folder = mkdtempSync(join(parent, `berth-test-${process.pid}-`))
  chmodSync(folder, 0o711)
  return folder
}

const memory = '/dev/shm'

/**
 * A throw-away folder in memory if there is room for a cluster, else on the disk: a database has 850 files, and a disk takes several times the processor
 * time to create and remove them. What killed processes have left there is removed.
 */
export function memoryFolder(): string {
  try {
    for (const name of readdirSync(memory)) {
      const pid = /^berth-test-(\d+)-/.exec(name)?.[1]
      if (pid && !existsSync(`/proc/${pid}`)) removeThrowAway(join(memory, name))
    }
    const { bavail, bsize } = statfsSync(memory)
    return throwAwayFolder(bavail * bsize > 4 * GiB ? memory : undefined)
  } catch {
    return throwAwayFolder() // a system without it, or another user's folder
  }
}

/** A throw-away cluster with the migrated template; without fsync, unless a measurement needs the durability of production. */
export async function startTestPostgres(
  supervisor: Supervisor,
  folder: string,
  say: Say,
  durable = false,
): Promise<TestPostgres> {
  const port = await unusedPort()
  const password = 'test'
  const cluster = { folder: join(folder, 'postgres'), port, password, durable, maxConnections: 300 }
  await supervisor.start(await postgresProcess(cluster, say))
  const adminUrl = postgresUrl(port, password, 'postgres')
  await ensureDatabase(adminUrl, templateDatabase)
  const db = openDatabase({ url: postgresUrl(port, password, templateDatabase), pool: 1 })
  await migrate(db).finally(() => db.destroy())
  return { adminUrl, folder }
}

export function removeThrowAway(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
}
