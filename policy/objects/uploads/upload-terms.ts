import { assertOption, assertPaid } from '../blob-options.ts'
import { type RuleFields, ruleFor } from '../blob-rules.ts'
import { durationSeconds, expiryAfter, shortExpirySeconds } from '../object-expiry.ts'
import { objectPrefix } from '../object-names.ts'
import { assertWithin } from '../prefix-limits.ts'
import type { UploadFields } from './upload-fields.ts'
import { type UploadPins, withPins } from './upload-tokens.ts'

/** The uploader's rights and rules that decide about an upload. */
export interface Uploader {
  planName: string
  /** Prefixes that the credential is limited to; null = no limit. */
  prefixes: readonly string[] | null
  /** Fields that an upload token pins. */
  pins?: UploadPins
  rules: readonly RuleFields[]
}

/** The terms of an upload, before its file is known. */
export interface UploadTerms {
  bucket: 'public' | 'private'
  /** Without its trailing slash; the root is an empty string. */
  prefix: string
  /** Undefined = the name of the file. */
  name: string | undefined
  /** Whether the name gets an unguessable part. */
  hashed: boolean
  expiresAt: Date | null
  overwrite: boolean
  cacheControl: string | null
  disposition: 'inline' | 'attachment' | null
  metadata: Record<string, string>
  /** Max bytes by rule and token; Infinity without a limit. */
  maxBytes: number
  /** Lists of allowed file types; the file's type must be in each of them. */
  extensions: readonly (readonly string[])[]
}

/**
 * Decides about an upload (contract 7.13): pinned fields are fixed, fields left out are filled from the rule with the longest prefix, and
 * the plan must include the requested options. Throws PERMISSION_DENIED, PREFIX_REQUIRED, PREFIX_NOT_ALLOWED and UPGRADE_REQUIRED.
 */
export function uploadTerms(requested: UploadFields, uploader: Uploader, now: Date): UploadTerms {
  const { planName, prefixes, pins, rules } = uploader
  assertPaid(planName)
  const fields = pins ? withPins(requested, pins) : requested
  const prefix = objectPrefix(fields.prefix ?? '') ?? ''
  const folder = prefix && `${prefix}/`
  assertWithin(prefixes, folder)
  assertOptions(fields, planName)
  const rule = ruleFor(rules, folder)
  const seconds = durationSeconds(fields.expire ?? rule?.expire ?? '')
  const lists = [rule?.extensions, pins?.allowed_extensions]
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
    extensions: lists.filter(list => list !== null && list !== undefined),
  }
}

/** Throws UPGRADE_REQUIRED. Fields from a rule were checked when the rule was saved, and stay valid after a step to a lower plan. */
function assertOptions(fields: Pick<UploadFields, 'expire' | 'cache_control' | 'metadata'>, planName: string): void {
  const { expire, cache_control, metadata } = fields
  if (expire !== undefined && (durationSeconds(expire) ?? 0) < shortExpirySeconds)
    assertOption(planName, 'short-expiry')
  if (cache_control === 'no-cache') assertOption(planName, 'no-cache')
  if (metadata && Object.keys(metadata).length > 0) assertOption(planName, 'metadata')
}
