import { CodedError } from '../errors.ts'
import { assertOption } from '../objects/blob-options.ts'
import { type RuleFields, ruleFor } from '../objects/blob-rules.ts'
import { durationSeconds, expiryAfter } from '../objects/object-expiry.ts'
import { isExtraBucket, type ObjectName } from '../objects/object-names.ts'
import { isBlockedType, typesOf } from '../objects/object-types.ts'
import type { WrittenHeaders } from './s3-headers.ts'

/** What the rules of an account make of a write. */
export interface WriteTerms {
  cacheControl: string | null
  /** From the moment when the object is stored, which may be long after the upload began; null = for ever. */
  expireSeconds: number | null
  maxBytes: number
}

/**
 * The rule with the longest prefix fills in what the headers leave out, and restricts size and types, as for uploads of the Blob API
 * (contract 7.13 and 7.48). Extra buckets have no rules. Throws BLOCKED_FILE_TYPE, FILE_TYPE_NOT_ALLOWED and UPGRADE_REQUIRED.
 */
export function writeTerms(
  { bucket, key }: ObjectName,
  { cacheControl }: Pick<WrittenHeaders, 'cacheControl'>,
  { planName }: { planName: string },
  rules: readonly RuleFields[],
): WriteTerms {
  if (isExtraBucket(bucket)) return { cacheControl, expireSeconds: null, maxBytes: Number.POSITIVE_INFINITY }
  const types = typesOf(key)
  if (types.some(isBlockedType)) throw new CodedError('BLOCKED_FILE_TYPE')
  if (bucket === 'public' && cacheControl && /no-cache|no-store/i.test(cacheControl)) assertOption(planName, 'no-cache')
  const rule = ruleFor(rules, key)
  if (rule?.extensions && !types.some(type => rule.extensions?.includes(type)))
    throw new CodedError('FILE_TYPE_NOT_ALLOWED')
  return {
    cacheControl: cacheControl ?? rule?.cache_control ?? null,
    expireSeconds: durationSeconds(rule?.expire ?? '') ?? null,
    maxBytes: rule?.max_size ?? Number.POSITIVE_INFINITY,
  }
}

/** When an object that is stored now expires. */
export const expiryOf = ({ expireSeconds }: Pick<WriteTerms, 'expireSeconds'>): Date | null =>
  expireSeconds === null ? null : expiryAfter(expireSeconds, new Date())
