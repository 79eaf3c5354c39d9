import { assertOption, assertPaid } from '../blob-options.ts'
import { type RuleFields, ruleFor } from '../blob-rules.ts'
import { durationSeconds, expiryAfter, shortExpirySeconds } from '../object-expiry.ts'
import { objectPrefix } from '../object-names.ts'
import { assertWithin } from '../prefix-limits.ts'
import type { UploadFields } from './upload-fields.ts'
import { pinned, type UploadPins } from './upload-tokens.ts'

/** Whose upload it is, as far as that decides what may be asked for. */
export interface Uploader {
  planName: string
  /** Beginnings of names that the credential is limited to; null = none. */
  prefixes: readonly string[] | null
  /** What an upload token fixes. */
  pins?: UploadPins
  rules: readonly RuleFields[]
}

/** What an upload will be, before its file is known. */
export interface UploadTerms {
  bucket: 'public' | 'private'
  /** Without the slash at its end; the root is an empty text. */
  prefix: string
  /** Undefined: the name of the file is taken. */
  name: string | undefined
  /** Whether the name gets a part that nobody guesses. */
  hashed: boolean
  expiresAt: Date | null
  overwrite: boolean
  cacheControl: string | null
  disposition: 'inline' | 'attachment' | null
  metadata: Record<string, string>
  /** Most bytes that rule and token allow; Infinity where they say nothing. */
  maxBytes: number
  /** Lists of file types; the file's is in each of them. */
  extensions: readonly (readonly string[])[]
}

/**
 * Decides what an upload will be (contract 7.13): what a token pins stands, what is left out is filled by the rule of the longest
 * prefix, and options that were asked for must be of the plan. Throws PERMISSION_DENIED, PREFIX_REQUIRED, PREFIX_NOT_ALLOWED and
 * UPGRADE_REQUIRED.
 */
export function uploadTerms(asked: UploadFields, uploader: Uploader, now: Date): UploadTerms {
  const { planName, prefixes, pins, rules } = uploader
  assertPaid(planName)
  const fields = pins ? pinned(asked, pins) : asked
  const prefix = objectPrefix(fields.prefix ?? '') ?? ''
  const folder = prefix && `${prefix}/`
  assertWithin(prefixes, folder)
  assertOptions(fields, planName)
  const rule = ruleFor(rules, folder)
  const seconds = durationSeconds(fields.expire ?? rule?.expire ?? '')
  const listed = [rule?.extensions, pins?.allowed_extensions]
  return {
    bucket: (fields.private ?? rule?.private) ? 'private' : 'public',
    prefix,
    name: fields.name,
    hashed: fields.name === undefined || fields.security_hash === true,
    expiresAt: seconds === undefined ? null : expiryAfter(seconds, now),
    overwrite: fields.overwrite ?? false,
    cacheControl: fields.cache_control ?? rule?.cache_control ?? null,
    disposition: fields.disposition ?? (fields.auto_download ? 'attachment' : null),
    metadata: fields.metadata ?? {},
    maxBytes: Math.min(rule?.max_size ?? Infinity, pins?.max_size ?? Infinity),
    extensions: listed.filter(list => list !== null && list !== undefined),
  }
}

/** Throws UPGRADE_REQUIRED. What a rule fills in was checked when the rule was saved, and survives a step to a lower plan. */
function assertOptions(fields: Pick<UploadFields, 'expire' | 'cache_control' | 'metadata'>, planName: string): void {
  const { expire, cache_control, metadata } = fields
  if (expire !== undefined && (durationSeconds(expire) ?? 0) < shortExpirySeconds)
    assertOption(planName, 'short-expiry')
  if (cache_control === 'no-cache') assertOption(planName, 'no-cache')
  if (metadata && Object.keys(metadata).length > 0) assertOption(planName, 'metadata')
}
