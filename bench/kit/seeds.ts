import type { Db } from '../../db/database.ts'
import { registerHost } from '../../db/hosts/hosts.ts'
import { newAppId } from '../../policy/ids.ts'

const hostId = 'h1'

/** The one host of a bench, where no container runs. */
export function seedHost(db: Db): Promise<void> {
  return registerHost(db, { id: hostId, address: '127.0.0.1', readUrl: '', memoryMb: 1, diskMb: 1, protections: {} })
}

/** An application of an account on that host, as its row is; resolves to its id. With a subdomain it is a web application. */
export async function seedApp(db: Db, ownerId: string, subdomain: string | null = null): Promise<string> {
  const id = newAppId()
  await db('apps').insert({
    id,
    owner_id: ownerId,
    name: 'bench',
    language: 'javascript',
    version: 'recommended',
    runtime_version: '22',
    ram_mb: 512,
    cpu: 1,
    subdomain,
    host_id: hostId,
  })
  return id
}
