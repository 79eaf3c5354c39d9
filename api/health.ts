import type { ObjectStore } from '../activities/object-store.ts'
import type { Db } from '../db/database.ts'
import { listHosts } from '../db/hosts.ts'
import type { Check } from './service-status.ts'

export interface Probed {
  db: Db
  store: ObjectStore
  /** Rejects when the proxy does not answer. */
  pingEdge(): Promise<unknown>
  /** Rejects when the workflow server does not answer. */
  pingWorkflows(): Promise<unknown>
}

/** What `GET /v2/service/status` looks at; each check really uses its part. */
export function healthChecks({ db, store, pingEdge, pingWorkflows }: Probed): Check[] {
  return [
    { key: 'api', name: 'API', kind: 'services', probe: async () => null },
    { key: 'applications', name: 'Application hosts', kind: 'services', probe: () => hosts(db) },
    { key: 'edge', name: 'Reverse proxy', kind: 'services', probe: () => well(pingEdge()) },
    { key: 'database', name: 'Database', kind: 'dependencies', probe: () => well(db.raw('select 1')) },
    { key: 'workflows', name: 'Workflow server', kind: 'dependencies', probe: () => well(pingWorkflows()) },
    { key: 'storage', name: 'Object store', kind: 'dependencies', probe: () => well(store.head('0'.repeat(32))) },
  ]
}

async function well(probe: PromiseLike<unknown>): Promise<null> {
  await probe
  return null
}

async function hosts(db: Db): Promise<string | null> {
  const all = (await listHosts(db)).filter(host => host.forgotten_at === null)
  const silent = all.filter(host => !host.reachable).length
  if (silent === all.length) throw new Error('no container host answers')
  return silent === 0 ? null : `${silent} of ${all.length} container hosts do not answer.`
}
