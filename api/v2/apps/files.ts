import { z } from 'zod'
import { isRestorePending } from '../../../db/operations/operations.ts'
import { permits } from '../../../policy/accounts/permissions.ts'
import { listedPath, presentPath, wantedPath } from '../../../policy/apps/app-paths.ts'
import { isConfigFile, isSecretFile } from '../../../policy/apps/secret-files.ts'
import { jsonBodyBytes } from '../../../policy/body-budgets.ts'
import { CodedError } from '../../../policy/errors.ts'
import type { FilesView } from '../../hosts/host-files.ts'
import { streamSuccess } from '../../http/streamed-answer.ts'
import { type Call, endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { base64Json, bufferJson } from '../../views/file-content.ts'
import { fileContentForms, fileContentShown, fileContentTaken, fileEntry } from '../schemas.ts'
import { configurationErrors } from './app-creation.ts'
import { rewriteConfig } from './config-rewrite.ts'

const path = '/v2/apps/{appId}/files'
const read = { scope: 'files:read', permission: 'files' } as const
const write = { scope: 'files:write', permission: 'files' } as const

const commonCodes = ['INVALID_PATH', 'BLOCKED_PATH', 'CLUSTER_UNAVAILABLE', 'CLUSTER_TIMEOUT', 'ACTION_FAILED'] as const
const configCodes = [
  ...configurationErrors,
  'MISSING_DEPENDENCIES_FILE',
  'CANNOT_SET_SUBDOMAIN',
  'INSUFFICIENT_MEMORY',
] as const

/** Contract 4.19: a large directory is listed in the order of the disk. */
export const listFiles = endpoint({
  name: 'apps.files',
  method: 'GET',
  path,
  summary: 'List a directory of an application',
  auth: read,
  query: z.object({ path: listedPath.default('/').meta({ default: '/' }) }),
  response: z.array(fileEntry),
  errors: [...commonCodes, 'FILE_NOT_FOUND'],
  async handle(call, services) {
    return streamSuccess(call.exchange, await services.files.list(viewOf(call, call.query.path, services)))
  },
})

export const readFileContent = endpoint({
  name: 'apps.files.content',
  method: 'GET',
  path: `${path}/content`,
  summary: 'Read a file of an application',
  auth: read,
  query: z.object({ path: presentPath, encoding: z.literal('base64', { error: 'INVALID_ENCODING' }).optional() }),
  response: fileContentShown,
  errors: [...commonCodes, 'FILE_NOT_FOUND', 'INVALID_ENCODING', 'FILE_TOO_LARGE'],
  async handle(call, services) {
    const bytes = await services.files.read(viewOf(call, call.query.path, services))
    return streamSuccess(call.exchange, call.query.encoding ? base64Json(bytes) : bufferJson(bytes))
  },
})

/** Readers never see half of a new file. A configuration file is applied by a deployment, and the answer is its outcome. */
export const writeFiles = endpoint({
  name: 'apps.files.write',
  method: 'PUT',
  path,
  summary: 'Create or replace a file of an application',
  auth: write,
  operation: true,
  maxBodyBytes: jsonBodyBytes.file,
  holdsFile: true,
  body: z.object({ path: wantedPath, ...fileContentTaken }).meta({ choices: [fileContentForms] }),
  errors: [
    ...commonCodes,
    ...configCodes,
    'INVALID_CONTENT',
    'INVALID_ENCODING',
    'FILE_TOO_LARGE',
    'SAVE_FAILED',
    'RESTORE_IN_PROGRESS',
    'COMMIT_FAILED',
  ],
  async handle(call, services) {
    const { app, caller, exchange, body } = call
    const view = viewOf(call, body.path, services)
    await assertNoRestore(call, services)
    if (!isConfigFile(body.path, services.config.appConfigNames)) return services.files.write(view, body.content)
    const { path: name, content } = body
    return rewriteConfig({ app, caller, exchange, name, content, codes: configCodes }, services)
  },
})

/** Moves files, directories and links unchanged; nothing is overwritten. */
export const moveFiles = endpoint({
  name: 'apps.files.move',
  method: 'PATCH',
  path,
  summary: 'Move or rename a file or directory of an application',
  auth: write,
  body: z.object({ path: presentPath, to: wantedPath }).refine(({ path, to }) => path !== to, 'INVALID_PATH'),
  errors: [...commonCodes, 'FILE_NOT_FOUND', 'RENAME_FAILED', 'RESTORE_IN_PROGRESS'],
  async handle(call, services) {
    const { path, to } = call.body
    const view = viewOf(call, path, services)
    viewOf(call, to, services)
    await assertNoRestore(call, services)
    if (isConfigFile(to, services.config.appConfigNames))
      throw new CodedError(
        'RENAME_FAILED',
        'A configuration file is applied when it is written; write it instead of renaming.',
      )
    return services.files.move(view, to)
  },
})

export const deleteFiles = endpoint({
  name: 'apps.files.delete',
  method: 'DELETE',
  path,
  summary: 'Delete a file of an application, or a directory with its contents',
  auth: write,
  body: z.object({ path: presentPath }),
  errors: [...commonCodes, 'FILE_NOT_FOUND', 'DELETE_FAILED', 'RESTORE_IN_PROGRESS'],
  async handle(call, services) {
    const view = viewOf(call, call.body.path, services)
    await assertNoRestore(call, services)
    return services.files.remove(view)
  },
})

type FileCall = Pick<Call<typeof read>, 'app' | 'role'>

/** Throws BLOCKED_PATH for what the caller's role may not see. */
function viewOf({ app, role }: FileCall, path: string, { config }: Services): FilesView {
  const hiding = permits(role, 'secret_files') ? null : config.appConfigNames
  if (hiding && isSecretFile(path, hiding)) throw new CodedError('BLOCKED_PATH')
  return { app, path, hiding }
}

/** A change while a restore waits or runs would be lost. */
async function assertNoRestore({ app }: FileCall, { db }: Services): Promise<void> {
  if (await isRestorePending(db, app.id)) throw new CodedError('RESTORE_IN_PROGRESS')
}
