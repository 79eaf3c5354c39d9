import { hostCall } from '../../api/hosts/host-call.ts'
import { type HostReading, httpHostReader } from '../../api/hosts/host-reader.ts'
import { usedMemoryMb } from '../../db/accounts/account-reservations.ts'
import { findUser, type UserRow } from '../../db/accounts/accounts.ts'
import type { Db } from '../../db/database.ts'
import { type DrillEvidence, listDrills, listPreventedDrills } from '../../db/databases/database-drills.ts'
import { findOperatedDatabase, type OperatedDatabase } from '../../db/databases/database-operator.ts'
import { loadDatabase } from '../../db/databases/databases.ts'
import { findHost, type HostRow } from '../../db/hosts/hosts.ts'
import { listOperations, type OperationLine, readOperationStory } from '../../db/operations/operator.ts'
import { KiB } from '../../lib/bytes.ts'
import { areDatabasesSuspended } from '../../policy/accounts/suspension.ts'
import { diskMbFor } from '../../policy/apps/sizes.ts'
import { databaseDomain, databaseHostname } from '../../policy/databases/connection-url.ts'
import { CodedError } from '../../policy/errors.ts'
import { plansOf } from '../../workers/adapters/plans.ts'
import type { Installation } from '../installation/installation.ts'
import { laneState } from '../ops/lane.ts'
import { holds } from '../ops/ops-explanation.ts'
import { type RestorableStory, readRestorableStory } from './restorable-story.ts'

/** The end of an engine's log, or why it cannot be read. */
type LogEnd = { lines: string[] } | { why: string }

/** Everything known about a database, and about what it depends on. */
export interface DatabaseStory {
  database: OperatedDatabase
  /** The plan of the owner has ended, so that the database may not start. */
  suspended: boolean
  blocked: boolean
  host: HostRow | null
  /** What the host reports of the image: `ready`, null = it is being prepared, else why it is not there. */
  image: string | null
  /** What its last drill has shown; null = there was none. */
  drill: DrillEvidence | null
  /** The last one that has tried its snapshot, and was not prevented. */
  triedDrill: DrillEvidence | null
  /** The last one, if it was prevented and a good one has been missing for too long. */
  preventedDrill: DrillEvidence | null
  /** Name of the database for applications and clients. */
  hostname: string
  /** Disk of its volume in MB. */
  diskMb: number
  /** Measured now; null when the host does not answer. */
  figures: HostReading | null
  /** Address at which its port listens (DATABASE_BIND); null unless its host is this machine's. */
  bind: string | null
  /** Why the operation that waits or runs does not proceed. */
  holds: string[]
  /** Newest first. */
  operations: OperationLine[]
  log: LogEnd
  /** Null for engines that are restored from snapshots only. */
  restorable: RestorableStory | null
}

const maxOperations = 8
const logLines = 20
const logBytes = 16 * KiB

/** Undefined when there is no such database. What does not answer is part of the story, and rejects nothing. */
export async function readDatabaseStory(
  { config }: Pick<Installation, 'config'>,
  db: Db,
  id: string,
): Promise<DatabaseStory | undefined> {
  const database = await findOperatedDatabase(db, id)
  const row = await loadDatabase(db, id)
  if (!database || !row) return undefined
  const host = (await findHost(db, database.host_id)) ?? null
  const owner = await findUser(db, database.owner_id)
  const reader = httpHostReader(db, hostCall(db, config.masterKey))
  const [drill = null] = await listDrills(db, { databaseId: id, limit: 1 })
  const [triedDrill = null] = await listDrills(db, { databaseId: id, tried: true, limit: 1 })
  const { drillDays: everyDays } = config.databases
  const [preventedDrill = null] = await listPreventedDrills(db, { databaseId: id, everyDays })
  const now = new Date()
  return {
    database,
    suspended: owner ? await isSuspended(db, config, owner, now) : false,
    blocked: Boolean(owner?.blocked_at),
    host,
    image: host?.database_images[database.image] ?? null,
    ...{ drill, triedDrill, preventedDrill },
    hostname: databaseHostname(id, databaseDomain(host ?? undefined, config.databases.domain)),
    diskMb: diskMbFor(database.ram_mb, config.host.diskMbPer256Mb),
    figures: host?.reachable ? await reader.stats(row) : null,
    bind: database.host_id === config.host.id ? config.databases.bind : null,
    holds: database.pending ? await holdsOf(config, db, database.pending.id, now) : [],
    operations: await listOperations(db, { databaseId: id, limit: maxOperations }),
    log: await logEnd(() => reader.logs(row, logBytes)),
    restorable: await readRestorableStory(db, row),
  }
}

type Config = Installation['config']

async function isSuspended(db: Db, config: Config, owner: UserRow, now: Date): Promise<boolean> {
  return areDatabasesSuspended(plansOf(config), owner, await usedMemoryMb(db, owner.id), now)
}

async function holdsOf(config: Config, db: Db, operationId: string, now: Date): Promise<string[]> {
  const story = await readOperationStory(db, operationId, 1)
  if (!story) return []
  const { target_type: type, target_id: id } = story.operation
  return holds(story, await laneState(config, { type, id }), now)
}

async function logEnd(read: () => Promise<string | null>): Promise<LogEnd> {
  try {
    const text = await read()
    if (text === null) return { why: 'its container is missing, so there is no log' }
    return { lines: text.trimEnd().split('\n').filter(Boolean).slice(-logLines) }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return { why: `its host does not answer (${error.code})` }
  }
}
