import { randomBytes, randomUUID } from 'node:crypto'
import { createUser } from '../../../db/accounts/accounts.ts'
import { type AppCreation, createApp } from '../../../db/apps/app-creation.ts'
import type { Db } from '../../../db/database.ts'
import { createDatabase, type DatabaseCreation } from '../../../db/databases/database-creation.ts'
import * as hosts from '../../../db/hosts/hosts.ts'
import * as segments from '../../../db/objects/segments.ts'
import { defaultPlans, type Plans } from '../../../policy/accounts/plans.ts'
import type { AppConfigFile } from '../../../policy/apps/app-config.ts'

const image = 'berth/redis:8'

/** Rows as tests need them, written by the same functions as the real ones. */
export function rows(db: Db) {
  return {
    user: (plan = 'standard-4') => createUser(db, { email: `${randomUUID()}@example.org`, name: 'Ana', plan }),

    async host(id: string, changes: Partial<hosts.HostRegistration> = {}) {
      const usual = {
        address: '127.0.0.1',
        readUrl: 'http://127.0.0.1:9',
        memoryMb: 8192,
        diskMb: 1_000_000,
        protections: {},
      }
      await hosts.registerHost(db, { ...usual, ...changes, id })
    },

    /** An uploaded application, written down and not yet run. */
    async app(ownerId: string, changes: Partial<AppConfigFile> = {}, creation: Partial<AppCreation> = {}) {
      const segmentId = await segments.allocateSegment(db)
      const archive = { segmentId, archiveSha256: 'a'.repeat(64), archiveBytes: 10 }
      const rest = { plans: plansOfMemory(4096), actor: ownerId, diskMbPer256Mb: 10, ...creation }
      return createApp(db, { ownerId, config: configFile(changes), ...archive, ...rest })
    },

    /** A database, written down and not yet made. Its host must have the image (`databaseHost`). */
    database: (ownerId: string, changes: Partial<DatabaseCreation> = {}) =>
      createDatabase(db, {
        ...{ ownerId, actor: ownerId, plans: plansOfMemory(4096), name: 'orders', engine: 'redis', version: '8' },
        ...{ ramMb: 512, images: [image], diskMbPer256Mb: 10, ports: { from: 20_000, to: 24_999 } },
        ...changes,
      }),

    /** A host that has the image of `database`. */
    async databaseHost(id: string, changes: Partial<hosts.HostRegistration> = {}) {
      await this.host(id, changes)
      await db('hosts')
        .where({ id })
        .update({ database_images: JSON.stringify({ [image]: 'ready' }) })
    },
  }
}

/** Plans that all grant `memoryMb`. */
export const plansOfMemory = (memoryMb: number): Plans =>
  new Map([...defaultPlans].map(([name, plan]) => [name, { ...plan, memoryMb }]))

/** A parsed configuration file of a small web application with a name of its own. */
export function configFile(changes: Partial<AppConfigFile> = {}): AppConfigFile {
  return {
    displayName: 'shop',
    description: null,
    main: 'index.js',
    memoryMb: 512,
    version: 'recommended',
    subdomain: `shop-${randomBytes(4).toString('hex')}`,
    start: null,
    autorestart: false,
    runtime: null,
    language: 'javascript',
    health: null,
    runtimeVersion: '22',
    ...changes,
  }
}
