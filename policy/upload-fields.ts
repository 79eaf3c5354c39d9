import { z } from 'zod'
import type { ErrorCode } from './errors.ts'
import { durationSeconds } from './object-expiry.ts'
import { isObjectName, objectPrefix } from './object-names.ts'

// How an upload is told what its object shall be: in a query (upload, Init), and the same fields in bodies (tokens, copy, rules).

/** True or false in a query string, with a code of its own. */
export const toggle = (code: ErrorCode) =>
  z
    .enum(['true', 'false', '1', '0'], { error: code })
    .transform(text => text === 'true' || text === '1')
    .optional()
    .meta({ openapi: { type: 'boolean' } })

/** Without its extension. */
export const nameField = z.string({ error: 'INVALID_OBJECT_NAME' }).refine(isObjectName, 'INVALID_OBJECT_NAME')

/** Becomes the prefix without the slash at its end; the root is an empty text. */
export const prefixField = z
  .string({ error: 'INVALID_OBJECT_PREFIX' })
  .refine(text => objectPrefix(text) !== undefined, 'INVALID_OBJECT_PREFIX')
  .transform(text => objectPrefix(text) ?? '')

/** An hour to 1825 days; whether the plan has it is asked later. */
export const expireField = z
  .string({ error: 'INVALID_OBJECT_EXPIRE' })
  .refine(text => durationSeconds(text) !== undefined, 'INVALID_OBJECT_EXPIRE')

/** `immutable`, `no-cache`, or `max-age=` 60 seconds to a year. */
export const cacheControlField = z
  .string({ error: 'INVALID_OBJECT_CACHE_CONTROL' })
  .refine(isCacheControl, 'INVALID_OBJECT_CACHE_CONTROL')

export const dispositionField = z.enum(['inline', 'attachment'], { error: 'INVALID_OBJECT_DISPOSITION' })

export const metadataField = z.custom<Record<string, string>>(isMetadata, 'INVALID_OBJECT_METADATA')

const metadataText = z
  .string({ error: 'INVALID_OBJECT_METADATA' })
  .transform((text, context) => {
    const metadata = metadataOf(text)
    if (metadata) return metadata
    context.addIssue({ code: 'custom', message: 'INVALID_OBJECT_METADATA' })
    return z.NEVER
  })
  .meta({ openapi: { type: 'string', description: 'A JSON object of at most 5 texts by name, 512 bytes in all.' } })

/** Contract 10. Other parameters are ignored. */
export const uploadQuery = z.object({
  name: nameField.optional(),
  prefix: prefixField.optional(),
  private: toggle('INVALID_OBJECT_PRIVATE'),
  security_hash: toggle('INVALID_OBJECT_SECURITY_HASH'),
  expire: expireField.optional(),
  overwrite: toggle('INVALID_PARAMETERS'),
  disposition: dispositionField.optional(),
  auto_download: toggle('INVALID_STORAGE_AUTO_DOWNLOAD'),
  cache_control: cacheControlField.optional(),
  metadata: metadataText.optional(),
  checksum_sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
})

export type UploadFields = z.output<typeof uploadQuery>

/** Codes of the fields above. */
export const uploadFieldErrors = [
  'INVALID_OBJECT_NAME',
  'INVALID_OBJECT_PREFIX',
  'INVALID_OBJECT_PRIVATE',
  'INVALID_OBJECT_SECURITY_HASH',
  'INVALID_OBJECT_EXPIRE',
  'INVALID_OBJECT_DISPOSITION',
  'INVALID_STORAGE_AUTO_DOWNLOAD',
  'INVALID_OBJECT_CACHE_CONTROL',
  'INVALID_OBJECT_METADATA',
] as const satisfies readonly ErrorCode[]

const longestMaxAge = 365 * 24 * 3600

function isCacheControl(text: string): boolean {
  if (text === 'immutable' || text === 'no-cache') return true
  const seconds = Number(/^max-age=([1-9]\d{1,8})$/.exec(text)?.[1])
  return seconds >= 60 && seconds <= longestMaxAge
}

/** At most 5 texts by name, 512 bytes with their names (specification 2.5). */
export function isMetadata(value: unknown): value is Record<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const entries = Object.entries(value)
  if (entries.length > 5 || !entries.every(([name, text]) => name !== '' && typeof text === 'string')) return false
  return entries.reduce((sum, [name, text]) => sum + Buffer.byteLength(name + text), 0) <= 512
}

function metadataOf(text: string): Record<string, string> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isMetadata(value) ? value : undefined
  } catch {
    return undefined
  }
}
