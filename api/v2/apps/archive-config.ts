import type { FileHandle } from 'node:fs/promises'
import type { InspectOptions } from '../../../activities/archives/port.ts'
import { type AppConfigFile, ConfigRefused, configNames, parseAppConfig } from '../../../policy/apps/app-config.ts'
import { configTooLarge, maxConfigBytes } from '../../../policy/archives/archive-rules.ts'
import { CodedError } from '../../../policy/errors.ts'
import type { Services } from '../../services.ts'
import { isArchive, type Upload } from '../../uploads/uploads.ts'

/** Inspects a stored archive and resolves to its configuration. Throws the code of whatever is wrong with the archive. */
export async function archiveConfig(
  { segmentId, account }: { segmentId: string; account: string },
  { store, archives, config: { appConfigNames } }: Services,
  config: InspectOptions['config'],
): Promise<AppConfigFile | null> {
  const file = await store.open(segmentId)
  try {
    const inspection = await archives.inspect(file, { account, configNames: appConfigNames, config })
    if (!inspection.ok) throw new CodedError(inspection.code, inspection.message)
    return inspection.config
  } finally {
    await file.close()
  }
}

/** The configuration in an upload into a folder of an existing application; null when there is none. */
export async function uploadedConfig(
  { segmentId, fileName }: Upload,
  { folder, account }: { folder: string; account: string },
  services: Services,
): Promise<AppConfigFile | null> {
  if (isArchive(fileName))
    return archiveConfig({ segmentId, account }, services, folder === '' ? 'optional' : 'ignored')
  const names: readonly string[] = [...configNames, ...services.config.appConfigNames]
  if (folder !== '' || !names.includes(fileName)) return null
  const file = await services.store.open(segmentId)
  try {
    return parseAppConfig(await shortText(file), { has: () => false, rootNames: [], partial: true })
  } catch (error) {
    throw error instanceof ConfigRefused ? new CodedError(error.code, error.message) : error
  } finally {
    await file.close()
  }
}

async function shortText(file: FileHandle): Promise<string> {
  const { size } = await file.stat()
  if (size > maxConfigBytes) throw new CodedError('INVALID_FILE', configTooLarge)
  return file.readFile('utf8')
}
