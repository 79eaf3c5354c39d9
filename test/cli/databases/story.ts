import type { DatabaseStory } from '../../../cli/databases/database-story.ts'
import type { OperatedDatabase } from '../../../db/databases/database-operator.ts'
import type { HostRow } from '../../../db/hosts/hosts.ts'

/** The moment at which the tests of this folder look. */
export const now = new Date('2030-01-01T12:00:00Z')

export const ago = (seconds: number): Date => new Date(now.getTime() - seconds * 1000)

/** A database that runs well. */
export function operated(changes: Partial<OperatedDatabase> = {}): OperatedDatabase {
  return {
    ...{ id: 'd'.repeat(32), owner_id: '1'.repeat(18), owner_email: 'ana@example.org', name: 'orders' },
    ...{
      engine: 'postgres',
      version: '17',
      image: 'berth/postgres:17',
      image_id: null,
      ram_mb: 1024,
      host_id: 'h1',
      port: 20_000,
    },
    ...{ retired_generation: null, retired_until: null },
    ...{ generation: 1, password_generation: 1, certificate_ends_at: new Date('2031-01-01'), created_at: ago(900_000) },
    ...{ desired_state: 'running', status: 'running', started_at: ago(7200), lost_with: null, pending: null },
    ...{ exit_code: null, exit_oom: null, exit_at: null, restarts: 0, restart_at: null },
    ...{ crash_code: null, crash_oom: null, crash_at: null, crash_times: [] },
    ...{ snapshot_warn_at: new Date('2031-01-01') },
    ...{ certificate_renew_at: new Date('2030-08-08'), renewal_failures: 0, read_only_since: null },
    ...changes,
  }
}

const host: HostRow = {
  ...{
    id: 'h1',
    address: '127.0.0.1',
    read_url: null,
    memory_mb: 8192,
    disk_mb: 8192,
    protections: {},
    install_cache: null,
  },
  ...{
    builds: {},
    database_images: {},
    database_image_ids: {},
    database_domain: null,
    database_addresses: null,
    draining: false,
    last_seen_at: now,
    forgotten_at: null,
    reachable: true,
  },
}

/** What is known of a database that runs well, and of its host. */
export function storyOf(database: Partial<OperatedDatabase> = {}, changes: Partial<DatabaseStory> = {}): DatabaseStory {
  return {
    ...{
      database: operated(database),
      suspended: false,
      blocked: false,
      host,
      image: 'ready',
      drill: null,
      triedDrill: null,
      preventedDrill: null,
      diskMb: 100,
    },
    ...{ hostname: 'db-d.apps.example', figures: null, bind: '127.0.0.1' },
    ...{ holds: [], operations: [], log: { lines: ['ready to accept connections'] } },
    restorable: null,
    ...changes,
  }
}

export const silent = { ...host, reachable: false, last_seen_at: ago(600) }
