import { isRestorePending } from '../../../db/operations/operations.ts'
import { CodedError, type ErrorCode, inDoubt } from '../../../policy/errors.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { runDatabaseCommand } from '../apps/command.ts'

/** Why a database could not be started or stopped; these answers consist of status and code (contract 12.10). */
const refusalCodes = {
  start: [
    'CONTAINER_ALREADY_STARTED',
    'CONTAINER_TEMPORARILY_SUSPENDED',
    'CONTAINER_INSUFFICIENT_DISK_SPACE',
    'CONTAINER_NETWORK_CONFLICT',
    'ACTION_FAILED',
  ],
  stop: ['CONTAINER_ALREADY_STOPPED', 'ACTION_FAILED'],
} as const satisfies Record<string, readonly ErrorCode[]>

function power(kind: keyof typeof refusalCodes, summary: string) {
  const refusals = refusalCodes[kind]
  return endpoint({
    name: `databases.${kind}`,
    method: 'POST',
    path: `/v2/databases/{databaseId}/${kind}`,
    summary,
    auth: { scope: 'databases:write', database: true },
    operation: true,
    errors: [...refusals, 'RESTORE_IN_PROGRESS'],
    terse: refusals,
    async handle(call, services) {
      if (call.database.lost_with !== null) throw new CodedError('ACTION_FAILED')
      await runDatabaseCommand(call, services, {
        kind,
        async alongside(trx) {
          if (await isRestorePending(trx, call.database.id, 'database')) throw new CodedError('RESTORE_IN_PROGRESS')
        },
        failure: 'ACTION_FAILED',
        // An engine that loads its data goes on starting.
        ...(kind === 'start' && { undecided: inDoubt }),
        codes: refusals,
      })
    },
  })
}

export const startDatabase = power('start', 'Start a database')
export const stopDatabase = power('stop', 'Stop a database')
