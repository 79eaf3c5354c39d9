import { z } from 'zod'
import { transaction } from '../../../db/database.ts'
import { reserveMoreMemory } from '../../../db/databases/database-creation.ts'
import { renameDatabase } from '../../../db/databases/databases.ts'
import { readRestorableRanges } from '../../../db/databases/point-in-time/backups.ts'
import { isBusy } from '../../../db/operations/operations.ts'
import { mustFit, requestedMemoryMb } from '../../../policy/databases/database-memory.ts'
import { maxMemoryMb } from '../../../policy/databases/engine.ts'
import { CodedError, type ErrorCode, inDoubt } from '../../../policy/errors.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { checkedByEndpoint, optional, resourceName } from '../../pipeline/fields.ts'
import { databaseView, rangesView } from '../../views/database.ts'
import { runDatabaseCommand } from '../apps/command.ts'
import { databaseInfo } from '../schemas.ts'
import { assertReachable } from '../snapshots/snapshots.ts'

/** Contract 12.7. */
export const getDatabase = endpoint({
  name: 'databases.info',
  method: 'GET',
  path: '/v2/databases/{databaseId}',
  summary: 'Show a database',
  auth: { scope: 'databases:read', database: true },
  response: databaseInfo,
  async handle({ database }, { db }) {
    if (database.engine !== 'postgres') return databaseView(database)
    return { ...databaseView(database), restorable: rangesView(await readRestorableRanges(db, database)) }
  },
})

/** Why a database could not be given other memory; the host decides. */
const resizeCodes = [
  'INVALID_MEMORY',
  'CONTAINER_INSUFFICIENT_DISK_SPACE',
  'CONTAINER_NETWORK_CONFLICT',
  'ACTION_FAILED',
] as const satisfies readonly ErrorCode[]

/** Contract 12.8: a name alone changes immediately; memory is answered when the database has it, and a name with it changes then. */
export const updateDatabase = endpoint({
  name: 'databases.update',
  method: 'PATCH',
  path: '/v2/databases/{databaseId}',
  summary: 'Change the name or the memory of a database',
  auth: { scope: 'databases:write', database: true },
  operation: true,
  body: z.object({
    name: optional(resourceName),
    ram: z
      .unknown()
      .optional()
      .meta({ openapi: { type: ['integer', 'null'], minimum: 512, maximum: maxMemoryMb }, ...checkedByEndpoint }),
  }),
  errors: ['NO_UPDATE_DATA', 'INVALID_NAME', 'INSUFFICIENT_MEMORY', ...resizeCodes, 'CLUSTER_UNAVAILABLE'],
  async handle(call, services) {
    const { database, body } = call
    const { plans, config } = services
    const { name, ram = null } = body
    if (name === undefined && ram === null) throw new CodedError('NO_UPDATE_DATA')
    const rename = async () => {
      if (name) await transaction(services.db, trx => renameDatabase(trx, database.id, name))
    }
    if (ram === null) return rename()
    const ramMb = requestedMemoryMb(database.engine, ram)
    // Another change of memory may wait or run.
    if (ramMb === database.ram_mb && !(await isBusy(services.db, database.id, 'database'))) return rename()
    // Other memory of what does not run is a matter of its row alone, unless its data must fit.
    if (database.status !== 'exited' || mustFit(database.engine, { fromMb: database.ram_mb, toMb: ramMb }))
      await assertReachable(database.host_id, services)
    await runDatabaseCommand(call, services, {
      kind: 'resize',
      // With its memory, or not at all: an update that is refused changes nothing.
      input: { ramMb, name },
      alongside: trx => reserveMoreMemory(trx, { database, ramMb, plans, diskMbPer256Mb: config.host.diskMbPer256Mb }),
      failure: 'ACTION_FAILED',
      codes: resizeCodes,
    })
  },
})

/** Contract 12.9: answers once the database is deleted completely. */
export const deleteDatabase = endpoint({
  name: 'databases.delete',
  method: 'DELETE',
  path: '/v2/databases/{databaseId}',
  summary: 'Delete a database',
  auth: { scope: 'databases:write', database: true },
  operation: true,
  errors: ['DELETE_FAILED', 'RESTORE_IN_PROGRESS'],
  statuses: { DELETE_FAILED: 404 },
  async handle(call, services) {
    await runDatabaseCommand(call, services, {
      kind: 'delete',
      failure: 'DELETE_FAILED',
      undecided: inDoubt,
      codes: ['RESTORE_IN_PROGRESS'],
    }).catch(error => {
      throw error instanceof CodedError && error.code === 'DELETE_FAILED' ? undeleted() : error
    })
  },
})

const undeleted = () =>
  new CodedError('DELETE_FAILED', 'The database could not be deleted on its host. Nothing was lost. Try again.')
