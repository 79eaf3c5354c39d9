import { z } from 'zod'
import type { ErrorCode } from '../../errors.ts'
import { wholeNumbers } from '../../stated-bounds.ts'
import { durationForm } from '../object-expiry.ts'
import { isKey, keyBytes, listedPrefixForm, nameForm, objectPrefix, prefixForm } from '../object-names.ts'

// Fields that describe the object of an upload: in a query (upload, Init), and the same fields in bodies (tokens, copy, rules).

/** A boolean in a query string, with its own code. `defaultValue` is documented for fields whose default is always the same. */
export const toggle = (code: ErrorCode, defaultValue?: boolean) =>
  z
    .enum(['true', 'false', '1', '0'], { error: code })
    .transform(text => text === 'true' || text === '1')
    .optional()
    .meta({ openapi: { type: 'boolean', default: defaultValue } })

/** Without its extension. */
export const nameField = z.string({ error: 'INVALID_OBJECT_NAME' }).regex(nameForm, 'INVALID_OBJECT_NAME')

/** The value is the prefix without its trailing slash; the root is an empty string. */
export const prefixField = z
  .string({ error: 'INVALID_OBJECT_PREFIX' })
  .regex(prefixForm, 'INVALID_OBJECT_PREFIX')
  .transform(text => objectPrefix(text) ?? '')

/** The value is the folder to list with its trailing slash; the root is an empty string. */
export const listedPrefixField = z
  .string({ error: 'INVALID_OBJECT_PREFIX' })
  .regex(listedPrefixForm, 'INVALID_OBJECT_PREFIX')
  .refine(text => text === '' || isKey(text), 'INVALID_OBJECT_PREFIX')
  .transform(text => text && `${text.replace(/\/$/, '')}/`)
  .meta({ description: `At most ${keyBytes} bytes.`, 'x-maxBytes': keyBytes })

/** An hour to 1825 days; the plan is checked later. */
export const expireField = z.string({ error: 'INVALID_OBJECT_EXPIRE' }).regex(durationForm, 'INVALID_OBJECT_EXPIRE')

const maxMaxAgeSeconds = 365 * 24 * 3600

/** `immutable`, `no-cache`, or `max-age=` 60 seconds to a year. */
export const cacheControlField = z
  .string({ error: 'INVALID_OBJECT_CACHE_CONTROL' })
  .regex(
    new RegExp(`^(?:immutable|no-cache|max-age=${wholeNumbers(60, maxMaxAgeSeconds)})$`),
    'INVALID_OBJECT_CACHE_CONTROL',
  )

export const dispositionField = z.enum(['inline', 'attachment'], { error: 'INVALID_OBJECT_DISPOSITION' })

const metadataLimits = { texts: 5, bytes: 512 }

/** Names and values of metadata are sent as headers: they must not contain line breaks or control characters other than tab. */
export const metadataForm = String.raw`^[^\u0000-\u0008\u000a-\u001f\u007f\ud800-\udfff]*$`
const isForHeader = new RegExp(metadataForm, 'u')

/** For the OpenAPI document. Bytes are those of names and values together. */
const metadataShown = {
  type: 'object',
  propertyNames: { minLength: 1, pattern: metadataForm },
  additionalProperties: { type: 'string', pattern: metadataForm },
  maxProperties: metadataLimits.texts,
  'x-maxBytes': metadataLimits.bytes,
}

export const metadataField = z
  .custom<Record<string, string>>(isMetadata, 'INVALID_OBJECT_METADATA')
  .meta({ openapi: metadataShown })

const metadataText = z
  .string({ error: 'INVALID_OBJECT_METADATA' })
  .transform((text, context) => {
    const metadata = metadataOf(text)
    if (metadata) return metadata
    context.addIssue({ code: 'custom', message: 'INVALID_OBJECT_METADATA' })
    return z.NEVER
  })
  .meta({ openapi: { type: 'string', contentMediaType: 'application/json', contentSchema: metadataShown } })

/** Contract 7.11. Other parameters are ignored. */
export const uploadQuery = z.object({
  name: nameField.optional(),
  prefix: prefixField.optional(),
  private: toggle('INVALID_OBJECT_PRIVATE'),
  security_hash: toggle('INVALID_OBJECT_SECURITY_HASH'),
  expire: expireField.optional(),
  overwrite: toggle('INVALID_PARAMETERS', false),
  disposition: dispositionField.optional(),
  auto_download: toggle('INVALID_STORAGE_AUTO_DOWNLOAD', false),
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

/** At most 5 named strings, 512 bytes including names (contract 7.9). */
function isMetadata(value: unknown): value is Record<string, string> {
  if (!isMetadataChange(value)) return false
  return Object.values(value).every(text => text !== null) && fitsMetadata(value as Record<string, string>)
}

/** Whether metadata is within the limits of an object. */
export function fitsMetadata(metadata: Record<string, string>): boolean {
  const entries = Object.entries(metadata)
  if (entries.length > metadataLimits.texts) return false
  return entries.reduce((sum, [name, text]) => sum + Buffer.byteLength(name + text), 0) <= metadataLimits.bytes
}

/**
 * Named strings, or null to delete an entry, which may have any name; the limits can only be checked together with the entries that
 * stay.
 */
export function isMetadataChange(value: unknown): value is Record<string, string | null> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const isText = (name: string, text: unknown) =>
    typeof text === 'string' && isForHeader.test(name) && isForHeader.test(text)
  return Object.entries(value).every(([name, text]) => name !== '' && (text === null || isText(name, text)))
}

function metadataOf(text: string): Record<string, string> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isMetadata(value) ? value : undefined
  } catch {
    return undefined
  }
}
