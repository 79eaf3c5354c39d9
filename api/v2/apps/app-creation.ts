import { z } from 'zod'
import { createApp as insertApp } from '../../../db/apps/app-creation.ts'
import { assertCheckable } from '../../../policy/apps/address-rules.ts'
import type { AppConfigFile } from '../../../policy/apps/app-config.ts'
import { noCache } from '../../../policy/apps/app-paths.ts'
import { isEncodedSubdomain } from '../../../policy/apps/subdomains.ts'
import { CodedError, type ErrorCode } from '../../../policy/errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { accept } from '../../pipeline/acceptance.ts'
import { reauthenticate } from '../../pipeline/access.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { type InTransaction, idempotencyErrors, idempotencyKeyOf, oncePerKey } from '../../pipeline/idempotent.ts'
import type { Services } from '../../services.ts'
import { receiveAppFile } from '../../uploads/app-upload.ts'
import { discard, isArchive, oneFile, type Upload, uploadErrors } from '../../uploads/uploads.ts'
import { createdView } from '../../views/app.ts'
import { createdApp } from '../schemas.ts'
import { archiveConfig } from './archive-config.ts'
import { wakeLane } from './command.ts'

/** Codes for which a configuration file may be refused (contract 5.3), whatever else the archive contains. */
export const configurationErrors = [
  'MISSING_DISPLAY_NAME',
  'INVALID_DISPLAY_NAME',
  'MISSING_MAIN',
  'INVALID_MAIN',
  'MISSING_MEMORY',
  'INVALID_MEMORY',
  'MISSING_VERSION',
  'INVALID_VERSION',
  'INVALID_DESCRIPTION',
  'INVALID_SUBDOMAIN',
  'SUBDOMAIN_TAKEN',
  'INVALID_START',
  'INVALID_AUTORESTART',
  'INVALID_RUNTIME',
  'INVALID_HEALTH',
] as const satisfies readonly ErrorCode[]

const auth = { scope: 'apps:write' } as const

/** Contract 4.2. Answers once the application is durable, not when its container runs. */
export const createApp = endpoint({
  name: 'apps.create',
  method: 'POST',
  path: '/v2/apps',
  summary: 'Create an application from a zip archive',
  auth,
  operation: true,
  upload: oneFile,
  query: z.object({ no_cache: noCache }),
  response: createdApp,
  errors: [
    ...uploadErrors,
    'FAILED_UPLOAD_DATA',
    'EMPTY_RESPONSE',
    'FAILED_UPLOAD',
    'MISSING_CONFIG',
    ...configurationErrors,
    'MISSING_DEPENDENCIES_FILE',
    ...idempotencyErrors,
    'FEW_MEMORY',
    'FAILED_CLUSTER_SELECTION',
    'CLUSTER_MAINTENANCE_TRY_LATER',
    'UPLOAD_BUSY',
    'RESOURCE_NOT_ALLOWED',
  ],
  async handle({ caller, query, exchange }, services) {
    if (caller.resources !== null)
      throw new CodedError(
        'RESOURCE_NOT_ALLOWED',
        'A key that is limited to certain applications cannot create new ones.',
      )
    const key = idempotencyKeyOf(exchange)
    const isClean = query.no_cache === 'true'
    const upload = await receiveAppFile({ caller, exchange }, services, {
      accepts: isArchive,
      unstored: 'FAILED_UPLOAD_DATA',
      empty: 'EMPTY_RESPONSE',
      cut: 'FAILED_UPLOAD',
    })
    try {
      await reauthenticate({ auth }, exchange, services)
      const request = { key, route: 'POST /v2/apps', fingerprint: `${upload.sha256}${isClean ? ' no_cache' : ''}` }
      return await oncePerKey<View>({ caller, exchange }, request, services.db, inTransaction =>
        createFrom(upload, { caller, exchange, isClean }, services, inTransaction),
      )
    } finally {
      // Attached segments stay: only an unreferenced one can be discarded.
      await discard(services, upload)
    }
  },
})

type View = ReturnType<typeof createdView>

async function createFrom(
  upload: Upload,
  { caller, exchange, isClean }: { caller: Caller; exchange: Exchange; isClean: boolean },
  services: Services,
  inTransaction: InTransaction<View>,
): Promise<View> {
  const config = await archiveConfig({ segmentId: upload.segmentId, account: caller.user.id }, services, 'required')
  if (!config) throw new CodedError('MISSING_CONFIG')
  if (config.subdomain !== null && isEncodedSubdomain(config.subdomain))
    throw new CodedError('INVALID_SUBDOMAIN', 'SUBDOMAIN must not begin with xn--, the prefix of encoded names.')
  assertCheckable(config, config.subdomain)
  const { app, answer } = await inTransaction(
    async trx => {
      const { app, operationId } = await insertApp(trx, {
        ...creation(upload, caller, config, services),
        noCache: isClean,
      }).catch(withOlderNames)
      exchange.headers['X-Operation-Id'] = operationId
      exchange.resource = app.id
      return { app, operationId, answer: createdView(app, services.config.appsDomain) }
    },
    work => accept(services, work),
  )
  wakeLane(services, app)
  return answer
}

/** A creation alone sends the older names of these refusals (contract 10.2). */
const olderNames: Partial<Record<ErrorCode, ErrorCode>> = {
  INSUFFICIENT_MEMORY: 'FEW_MEMORY',
  CLUSTER_SELECTION_FAILED: 'FAILED_CLUSTER_SELECTION',
}

function withOlderNames(error: unknown): never {
  const name = error instanceof CodedError && olderNames[error.code]
  throw name ? new CodedError(name, error.message) : error
}

const creation = (upload: Upload, { user }: Caller, config: AppConfigFile, services: Services) => ({
  ownerId: user.id,
  plans: services.plans,
  config,
  segmentId: upload.segmentId,
  archiveSha256: upload.sha256,
  archiveBytes: upload.size,
  actor: user.id,
  accepting: true,
  diskMbPer256Mb: services.config.host.diskMbPer256Mb,
})
