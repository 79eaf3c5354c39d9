import { z } from 'zod'
import type { AppRow } from '../../db/apps.ts'
import { findApp, usedMemoryMb } from '../../db/apps.ts'
import { type Db, transaction } from '../../db/database.ts'
import { queueDeploy } from '../../db/deploys.ts'
import type { AppConfigFile } from '../../policy/app-config.ts'
import { appFile, appFolder } from '../../policy/app-paths.ts'
import { ApiError } from '../../policy/errors.ts'
import { uploadedConfig } from '../archive-config.ts'
import type { Caller } from '../authenticate.ts'
import { wakeLane } from '../command.ts'
import { endpoint } from '../endpoint.ts'
import { idempotencyErrors, idempotencyKeyOf, idempotent } from '../idempotent.ts'
import type { Parts } from '../parts.ts'
import { discard, isArchive, oneFile, receiveFile, type Upload, uploadErrors } from '../uploads.ts'
import { configurationErrors } from './app-creation.ts'

/** Contract 4: a zip is unpacked into `path`, any other file lands there under its name. Answers once the deploy is stored. */
export const appsCommit = endpoint({
  name: 'apps.commit',
  method: 'POST',
  path: '/v2/apps/{appId}/commit',
  summary: 'Deploy files into an application',
  auth: { scope: 'apps:deploy', permission: 'commit' },
  upload: oneFile,
  query: z.object({
    path: z
      .string({ error: 'INVALID_PATH' })
      .refine(path => appFolder(path) !== null, 'INVALID_PATH')
      .optional(),
  }),
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
  ],
  async handle({ app, caller, query, exchange }, parts) {
    const key = idempotencyKeyOf(exchange)
    const folder = appFolder(query.path ?? '') ?? ''
    const accepts = (name: string) => isArchive(name) || appFile(folder, name) !== null
    const upload = await receiveFile(exchange, parts, { accepts, unstored: 'STORAGE_UPLOAD_FAILED' })
    try {
      const commit = (store?: Store) => commitFrom({ upload, folder, app, caller }, exchange.headers, parts, store)
      if (key === undefined) await commit()
      else {
        const route = `POST /v2/apps/${app.id}/commit ${folder}`
        const request = { userId: caller.user.id, key, route, fingerprint: `${upload.sha256} ${upload.fileName}` }
        await idempotent(parts.db, exchange, request, commit)
      }
    } finally {
      // Attached segments stay: only one that nothing refers to can be discarded.
      await discard(parts, upload.segmentId)
    }
  },
})

interface Commit {
  upload: Upload
  folder: string
  app: AppRow
  caller: Caller
}

type Nothing = Record<string, never>
type Store = (trx: Db, value: Nothing) => Promise<void>

async function commitFrom(
  commit: Commit,
  headers: Record<string, string>,
  parts: Parts,
  store?: Store,
): Promise<Nothing> {
  const { upload, folder, app, caller } = commit
  const config = await uploadedConfig(upload, folder, parts)
  if (config) await checkConfig(config, commit, parts)
  await transaction(parts.db, async trx => {
    const queued = await queueDeploy(trx, {
      appId: app.id,
      ownerId: app.owner_id,
      actor: caller.user.id,
      trigger: 'upload',
      revision: upload.sha256.slice(0, 40),
      archive: { segmentId: upload.segmentId, bytes: upload.size, sha256: upload.sha256 },
      path: folder,
      filename: isArchive(upload.fileName) ? undefined : upload.fileName,
      config,
    })
    if (!queued) throw new ApiError((await findApp(trx, app.owner_id, app.id)) ? 'COMMIT_FAILED' : 'APP_NOT_FOUND')
    headers['X-Operation-Id'] = queued.operationId
    await store?.(trx, {})
  })
  wakeLane(parts, app)
  return {}
}

/** What the release would refuse is refused now; it judges again, for the plan may be used up meanwhile. */
async function checkConfig(config: AppConfigFile, { app, caller }: Commit, { db }: Parts): Promise<void> {
  if (config.subdomain !== null && config.subdomain !== app.subdomain) throw new ApiError('CANNOT_SET_SUBDOMAIN')
  const moreMb = config.memoryMb - app.ram_mb
  if (moreMb <= 0) return
  const freeMb = caller.plan.memoryMb - (await usedMemoryMb(db, app.owner_id))
  if (moreMb > freeMb)
    throw new ApiError(
      'INSUFFICIENT_MEMORY',
      `MEMORY asks for ${moreMb} MB more; the plan has ${Math.max(0, freeMb)} MB left.`,
    )
}
