import type { EngineName } from '../../policy/databases/engine.ts'
import type { AppStatus } from '../apps/apps.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import type { DatabaseOperationKind } from './operation-kinds.ts'

/** Columns of a database that decide about the steps of its operations, from its current row. */
export interface DatabaseFacts {
  id: string
  ownerId: string
  engine: EngineName
  version: string
  image: string
  /** The image that it runs with until it is upgraded; null = any of that name. */
  imageId: string | null
  ramMb: number
  /** The most memory in MB that it has had: its volumes are made for that. */
  diskForMb: number
  cpus: number
  hostId: string
  port: number
  uid: number
  generation: number
  nextGeneration: number
  passwordGeneration: number
  /** PEM; null until its host has issued one. */
  certificate: string | null
  /** When its certificates are due to be replaced; null = never. */
  certificateRenewAt: string | null
  /** Writes have ended because its disk is nearly full. */
  readOnly: boolean
  status: AppStatus
  /** Without regard to a waiting or running deletion. */
  desired: 'running' | 'stopped' | 'deleted'
  /** What is on its volume is compared, and then removed: nothing of it must survive a power loss. In no row. */
  isScratch?: boolean
}

/** An operation of a database with everything that decides about its steps, from the current rows. */
export interface DatabaseOperationFacts {
  id: string
  kind: DatabaseOperationKind
  databaseId: string
  ownerId: string
  running: boolean
  claim: string | null
  claimStep: number
  input: Record<string, unknown>
  /** Null when the database is deleted. */
  database: DatabaseFacts | null
}

/** One indexed statement: every step on a host starts with it. Undefined when there is no such operation of a database. */
export async function readDatabaseFacts(db: Db, operationId: string): Promise<DatabaseOperationFacts | undefined> {
  return (await facts(db, [operationId]))[0]
}

const databaseJson = `json_build_object(
            'id', d.id, 'ownerId', d.owner_id, 'engine', d.engine, 'version', d.version, 'image', d.image, 'imageId', d.image_id, 'ramMb', d.ram_mb, 'diskForMb', d.disk_for_mb,
            'cpus', d.cpu, 'hostId', d.host_id, 'port', d.port, 'uid', d.uid, 'generation', d.generation,
            'nextGeneration', d.next_generation, 'passwordGeneration', d.password_generation, 'certificate', d.certificate, 'certificateRenewAt', d.certificate_renew_at, 'readOnly', d.read_only_since is not null,
            'status', d.status, 'desired', coalesce(d.desired_if_kept, d.desired_state))`

const facts = statement<DatabaseOperationFacts>(
  'database-facts.of',
  `select o.id, o.kind, o.target_id as "databaseId", coalesce(d.owner_id, o.owner_id) as "ownerId", o.state = 'running' as running,
          o.claim, o.claim_step as "claimStep", o.input,
          case when d.id is not null then ${databaseJson} end as database
     from operations o
     left join databases d on d.id = o.target_id
    where o.id = $1 and o.target_type = 'database'`,
)

const ofDatabase = statement<{ database: DatabaseFacts }>(
  'database-facts.of-database',
  `select ${databaseJson} as database from databases d where d.id = $1`,
)

/** The same columns of a database outside of its operations; undefined when it is deleted. */
export async function readFactsOfDatabase(db: Db, databaseId: string): Promise<DatabaseFacts | undefined> {
  return (await ofDatabase(db, [databaseId]))[0]?.database
}
