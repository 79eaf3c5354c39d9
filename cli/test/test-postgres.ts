import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate, openDatabase } from '../../db/database.ts'
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
export function throwAwayFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'berth-test-'))
  chmodSync(folder, 0o711)
  return folder
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
