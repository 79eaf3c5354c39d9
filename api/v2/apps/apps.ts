import { inDoubt } from '../../../policy/errors.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { appView } from '../../views/app.ts'
import { appInfo } from '../schemas.ts'
import { runCommand } from './command.ts'

/** Contract 4.1. */
export const getApp = endpoint({
  name: 'apps.info',
  method: 'GET',
  path: '/v2/apps/{appId}',
  summary: 'Show an application',
  auth: { scope: 'apps:read', permission: 'read' },
  response: appInfo,
  async handle({ app }, { config }) {
    return appView(app, config.appsDomain)
  },
})

/** Contract 4.5: answers once the application is deleted completely. */
export const deleteApp = endpoint({
  name: 'apps.delete',
  method: 'DELETE',
  path: '/v2/apps/{appId}',
  summary: 'Delete an application',
  auth: { scope: 'apps:write', permission: 'delete' },
  operation: true,
  errors: ['DELETE_ERROR', 'RESTORE_IN_PROGRESS'],
  async handle(call, services) {
    await runCommand(call, services, {
      kind: 'delete',
      failure: 'DELETE_ERROR',
      undecided: inDoubt,
      codes: ['RESTORE_IN_PROGRESS'],
    })
  },
})
