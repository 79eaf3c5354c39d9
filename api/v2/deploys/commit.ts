import { z } from 'zod'
import { appFile, commitPath, noCache } from '../../../policy/apps/app-paths.ts'
import { assertNotLost, reauthenticate } from '../../pipeline/access.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { idempotencyErrors, idempotencyKeyOf, oncePerKey } from '../../pipeline/idempotent.ts'
import { receiveAppFile } from '../../uploads/app-upload.ts'
import { discard, isArchive, oneFile, uploadErrors } from '../../uploads/uploads.ts'
import { configurationErrors } from '../apps/app-creation.ts'
import { queueCommit } from './commits.ts'

const auth = { scope: 'apps:deploy', permission: 'commit' } as const

/** Contract 6.1: a zip is unpacked into `path`, any other file is placed there under its name. Answers once the deploy is stored. */
export const commitApp = endpoint({
  name: 'apps.commit',
  method: 'POST',
  path: '/v2/apps/{appId}/commit',
  summary: 'Deploy files into an application',
  auth,
  operation: true,
  upload: oneFile,
  query: z.object({ path: commitPath.default('').meta({ default: '' }), no_cache: noCache }),
  errors: [
    ...uploadErrors,
    ...configurationErrors,
    ...idempotencyErrors,
    'INVALID_PATH',
    'STORAGE_UPLOAD_FAILED',
    'COMMIT_FAILED',
    'CANNOT_SET_SUBDOMAIN',
    'INSUFFICIENT_MEMORY',
    'UPLOAD_BUSY',
    'CLUSTER_UNAVAILABLE',
  ],
  async handle({ app, caller, query, exchange }, services) {
    assertNotLost(app)
    const key = idempotencyKeyOf(exchange)
    const { path: folder } = query
    const isClean = query.no_cache === 'true'
    const accepts = (name: string) => isArchive(name) || appFile(folder, name) !== null
    const upload = await receiveAppFile({ caller, exchange }, services, { accepts, unstored: 'STORAGE_UPLOAD_FAILED' })
    try {
      await reauthenticate({ auth }, exchange, services)
      const route = `POST /v2/apps/${app.id}/commit ${folder}`
      const fingerprint = `${upload.sha256} ${upload.fileName}${isClean ? ' no_cache' : ''}`
      const request = { key, route, fingerprint }
      await oncePerKey<Record<string, never>>({ caller, exchange }, request, services.db, inTransaction =>
        queueCommit({ upload, folder, isClean, app, caller }, exchange.headers, services, inTransaction),
      )
    } finally {
      // Attached segments stay: only an unreferenced one can be discarded.
      await discard(services, upload)
    }
  },
})
