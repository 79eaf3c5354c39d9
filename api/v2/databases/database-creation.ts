import { z } from 'zod'
import { createDatabase as insertDatabase } from '../../../db/databases/database-creation.ts'
import { type DatabaseRow, findDatabase } from '../../../db/databases/databases.ts'
import { findOperation } from '../../../db/operations/operations.ts'
import { includesDatabases } from '../../../policy/accounts/plans.ts'
import { connectionUrl } from '../../../policy/databases/connection-url.ts'
import { requestedMemoryMb } from '../../../policy/databases/database-memory.ts'
import { type EngineName, engineNames, maxMemoryMb } from '../../../policy/databases/engine.ts'
import { engines, offeredVersion, versionPattern } from '../../../policy/databases/engines.ts'
import { mongoStandIn } from '../../../policy/databases/mongo.ts'
import { CodedError } from '../../../policy/errors.ts'
import { accept } from '../../pipeline/acceptance.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { checkedByEndpoint, resourceName } from '../../pipeline/fields.ts'
import { type InTransaction, idempotencyErrors, oncePerKey, requestOf } from '../../pipeline/idempotent.ts'
import type { Services } from '../../services.ts'
import { createdDatabaseView } from '../../views/database.ts'
import { wakeDatabaseLane } from '../apps/command.ts'
import { createdDatabase } from '../schemas.ts'
import { assertCreated, awaitCreation } from './creation-end.ts'
import { certificateOf, passwordOf } from './credentials.ts'
import { addressOf } from './database-address.ts'

/** A field that is required, and refused by the endpoint only once it knows that the platform offers what the fields before it name. */
const checkedInTurn = (openapi: object) =>
  z.preprocess(value => value, z.unknown()).meta({ openapi, ...checkedByEndpoint })

/** Contract 12.2 to 12.6: answers when its owner can log in. */
export const createDatabase = endpoint({
  name: 'databases.create',
  method: 'POST',
  path: '/v2/databases',
  summary: 'Create a database',
  auth: { scope: 'databases:write' },
  operation: true,
  checkCaller({ resources, plan }) {
    if (resources !== null)
      throw new CodedError('RESOURCE_NOT_ALLOWED', 'A key that is limited to certain resources cannot create new ones.')
    if (!includesDatabases(plan)) throw new CodedError('UPGRADE_REQUIRED')
  },
  body: z.object({
    name: resourceName,
    type: z.enum(engineNames, { error: 'INVALID_DATABASE_TYPE' }),
    version: checkedInTurn({ type: 'string', pattern: versionPattern.source }),
    memory: checkedInTurn({ type: 'integer', minimum: 512, maximum: maxMemoryMb }),
  }),
  response: createdDatabase,
  errors: [
    ...idempotencyErrors,
    'RESOURCE_NOT_ALLOWED',
    'UPGRADE_REQUIRED',
    'INVALID_NAME',
    'INVALID_DATABASE_TYPE',
    'INVALID_DATABASE_VERSION',
    'INVALID_MEMORY',
    'INSUFFICIENT_MEMORY',
    'CLUSTER_SELECTION_FAILED',
    'CLUSTER_MAINTENANCE_TRY_LATER',
    'DATABASE_CREATION_FAILED',
    'DATABASE_NOT_FOUND',
  ],
  unexpected: ['DATABASE_CREATION_FAILED'],
  async handle(call, services) {
    const { body, caller, exchange } = call
    const { name, type: engine } = body
    const { engines: offered } = services.config.databases
    if (!offered.includes(engine))
      throw new CodedError('INVALID_DATABASE_TYPE', `This platform offers ${offered.join(', ') || 'no databases'}.`)
    const version = offeredVersion(engine, body.version)
    if (!version)
      throw new CodedError('INVALID_DATABASE_VERSION', `Versions of ${engine}: ${engines[engine].versions.join(', ')}.`)
    const order = { name, engine, version, ramMb: requestedMemoryMb(engine, body.memory) }
    const request = { ...requestOf(call, 'POST /v2/databases'), untilEnd: true } as const
    const created = await oncePerKey<Created>(call, request, services.db, inTransaction =>
      store(order, call, services, inTransaction),
    )
    const operationId = exchange.headers['X-Operation-Id'] ?? ''
    const creation = { databaseId: created.id, ownerId: caller.user.id, operationId }
    if ('Idempotent-Replayed' in exchange.headers) {
      // One that is not retained any more has succeeded, if its database exists.
      const operation = await findOperation(services.db, operationId)
      if (operation) await assertCreated(operation, services)
    } else await awaitCreation(creation, exchange.signal, services)
    const database = await findDatabase(services.db, caller.user.id, created.id)
    if (!database) throw new CodedError('DATABASE_NOT_FOUND', 'The database was deleted after its creation.')
    return createdDatabaseView(database, await credentialsOf(database, created, services))
  },
})

/** What is stored for repeated requests: their answer is made of it, so that no row holds the password. */
interface Created {
  id: string
  /** Of the password that was answered: a later one is for those only who may read credentials. */
  password_generation: number
}

interface Wanted {
  name: string
  engine: EngineName
  version: string
  ramMb: number
}

interface CreationCall {
  caller: Caller
  exchange: Parameters<typeof requestOf>[0]['exchange']
}

/** Stores a database with its operation, and wakes its lane. */
async function store(
  wanted: Wanted,
  { caller, exchange }: CreationCall,
  services: Services,
  inTransaction: InTransaction<Created>,
): Promise<Created> {
  const { plans, config } = services
  const { id: ownerId } = caller.user
  const creation = {
    ...{ ...wanted, ownerId, plans, actor: ownerId, accepting: true },
    ...{ images: imagesOf(wanted, services), ports: config.databases.ports },
    diskMbPer256Mb: config.host.diskMbPer256Mb,
  }
  const { database, answer } = await inTransaction(
    async trx => {
      const { database, operationId } = await insertDatabase(trx, creation)
      exchange.headers['X-Operation-Id'] = operationId
      exchange.resource = database.id
      const { id, password_generation } = database
      return { database, operationId, answer: { id, password_generation } }
    },
    work => accept(services, work),
  )
  wakeDatabaseLane(services, database)
  return answer
}

/** Images that can serve a database, the best first. */
function imagesOf({ engine, version }: Wanted, { config }: Services): string[] {
  const image = engines[engine].image(version)
  return engine === 'mongo' && config.databases.mongoStandIn ? [image, mongoStandIn.image(version)] : [image]
}

async function credentialsOf(database: DatabaseRow, created: Created, services: Services) {
  const password = await passwordOf(created, services)
  const address = await addressOf(database, services)
  return {
    password,
    certificate: await readableCertificate(database, services),
    url: connectionUrl(database.engine, address, password),
  }
}

/** Null when it cannot be read: the password is answered nowhere else. */
async function readableCertificate(database: DatabaseRow, services: Services): Promise<string | null> {
  try {
    return await certificateOf(database, services)
  } catch (err) {
    services.log.error({ err, database: database.id }, 'the certificate of a new database cannot be read')
    return null
  }
}
