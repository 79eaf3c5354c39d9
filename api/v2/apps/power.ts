import { CodedError, type ErrorCode } from '../../../policy/errors.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { runCommand } from './command.ts'

const commonCodes = ['CONTAINER_INSUFFICIENT_DISK_SPACE', 'ACTION_FAILED'] as const satisfies readonly ErrorCode[]

/** Why an application could not be started, stopped or restarted; these answers consist of status and code (contract 4.8). */
const refusalCodes = {
  start: ['CONTAINER_ALREADY_STARTED', 'CONTAINER_TEMPORARILY_SUSPENDED', ...commonCodes],
  stop: ['CONTAINER_ALREADY_STOPPED', ...commonCodes],
  restart: ['CONTAINER_TEMPORARILY_SUSPENDED', ...commonCodes],
} as const satisfies Record<string, readonly ErrorCode[]>

function power(kind: keyof typeof refusalCodes, summary: string) {
  const refusals = refusalCodes[kind]
  return endpoint({
    name: `apps.${kind}`,
    method: 'POST',
    path: `/v2/apps/{appId}/${kind}`,
    summary,
    auth: { scope: 'apps:control', permission: 'control' },
    operation: true,
    errors: refusals,
    terse: refusals,
    async handle(call, services) {
      if (call.app.lost_with !== null) throw new CodedError('ACTION_FAILED')
      await runCommand(call, services, { kind, failure: 'ACTION_FAILED', codes: refusals })
    },
  })
}

export const startApp = power('start', 'Start an application')
export const stopApp = power('stop', 'Stop an application')
export const restartApp = power('restart', 'Restart an application')
