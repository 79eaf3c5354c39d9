import { z } from 'zod'
import { listRules, saveRules } from '../../db/objects/blob-rules.ts'
import { tierOf } from '../../policy/accounts/plans.ts'
import { CodedError, isErrorCode } from '../../policy/errors.ts'
import { assertOption } from '../../policy/objects/blob-options.ts'
import {
  deletionDays,
  maxRules,
  maxRulesOfAnyTier,
  type RuleFields,
  ruleSizes,
  usualDeletionDays,
} from '../../policy/objects/blob-rules.ts'
import { durationSeconds, shortExpirySeconds } from '../../policy/objects/object-expiry.ts'
import { folderPrefixForm } from '../../policy/objects/object-names.ts'
import { assertWithin, isKeyWithin } from '../../policy/objects/prefix-limits.ts'
import { cacheControlField, expireField } from '../../policy/objects/uploads/upload-fields.ts'
import { failure, type Reply } from '../http/respond.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import { checkedByEndpoint, isoTime } from '../pipeline/fields.ts'
import { ruleView } from '../views/rule.ts'
import { blobEndpoint } from './blob-endpoint.ts'

const within = (code: string, { min, max }: { min: number; max: number }) =>
  z.int({ error: code }).min(min, code).max(max, code).nullish()

/** Contract 7.28; null means the same as leaving the field out. */
const rule = z.object({
  prefix: z
    .string({ error: 'INVALID_RULE_PREFIX' })
    .regex(folderPrefixForm, 'INVALID_RULE_PREFIX')
    .meta({ description: 'Folders, ending in "/".' }),
  private: z.boolean({ error: 'INVALID_OBJECT_PRIVATE' }).nullish(),
  expire: expireField.nullish(),
  max_size: within('INVALID_RULE_MAX_SIZE', ruleSizes),
  extensions: z
    .array(z.string().regex(/^[a-z0-9]{1,16}(\.[a-z0-9]{1,16})?$/, 'INVALID_RULE_EXTENSIONS'), {
      error: 'INVALID_RULE_EXTENSIONS',
    })
    .min(1, 'INVALID_RULE_EXTENSIONS')
    .max(50, 'INVALID_RULE_EXTENSIONS')
    .nullish(),
  cache_control: cacheControlField.nullish(),
  delete_after_days: within('INVALID_RULE_DELETE_AFTER_DAYS', deletionDays),
})

const savedRules = z.object({
  rules: z.array(
    z.object({
      prefix: z.string(),
      private: z.boolean().optional(),
      expire: z.string().optional(),
      max_size: z.number().optional(),
      extensions: z.array(z.string()).optional(),
      cache_control: z.string().optional(),
      delete_after_days: z.int().optional(),
      created_at: isoTime,
      active_from: isoTime.optional(),
    }),
  ),
})

/** A refusal that names the rule at fault. */
class RuleRefused extends CodedError {
  constructor(
    refused: CodedError,
    readonly prefix: string,
  ) {
    super(refused.code, refused.message)
  }
}

/** A key that is limited to prefixes sees only the rules below them. */
export const getUploadRules = blobEndpoint({
  name: 'rules.read',
  method: 'GET',
  path: '/v1/account/settings',
  summary: 'List the rules for uploads',
  auth: { scope: 'blob:read' },
  response: savedRules,
  async handle({ caller }, { db }) {
    const rules = await listRules(db, caller.user.id)
    return { rules: rules.filter(({ prefix }) => isKeyWithin(caller.prefixes, prefix)).map(ruleView) }
  },
})

/** Saved rules survive a step to a lower plan; rules saved afterwards must fit that plan (contract 7.29). */
export const saveUploadRules = blobEndpoint({
  name: 'rules.save',
  method: 'PUT',
  path: '/v1/account/settings',
  summary: 'Replace the rules for uploads',
  auth: { scope: 'blob:write' },
  body: z.object({
    rules: z
      .array(z.unknown(), { error: 'INVALID_RULES' })
      .meta({ openapi: z.array(rule).max(maxRulesOfAnyTier), ...checkedByEndpoint }),
  }),
  response: savedRules,
  errors: [
    'INVALID_RULES',
    'TOO_MANY_RULES',
    'INVALID_RULE_PREFIX',
    'INVALID_RULE_MAX_SIZE',
    'INVALID_RULE_EXTENSIONS',
    'INVALID_RULE_DELETE_AFTER_DAYS',
    'INVALID_OBJECT_PRIVATE',
    'INVALID_OBJECT_EXPIRE',
    'INVALID_OBJECT_CACHE_CONTROL',
    'UPGRADE_REQUIRED',
    'PREFIX_NOT_ALLOWED',
  ],
  refusal,
  async handle({ caller, body }, { db }) {
    assertCount(caller, body.rules.length)
    const rules = body.rules.map(sent => parseRule(sent, caller))
    for (const [n, { prefix }] of rules.entries())
      if (rules.findIndex(other => other.prefix === prefix) < n)
        throw new RuleRefused(new CodedError('INVALID_RULE_PREFIX', 'There are two rules for one prefix.'), prefix)
    // The list replaces all rules of the account, so a limited key would remove rules of other folders.
    for (const { prefix } of await listRules(db, caller.user.id)) assertWithin(caller.prefixes, prefix)
    return { rules: (await saveRules(db, caller.user.id, rules)).map(ruleView) }
  },
})

function assertCount({ planName }: Caller, count: number): void {
  const max = maxRules(tierOf(planName))
  if (count === 0 || count <= max) return
  if (max === 0) throw new CodedError('UPGRADE_REQUIRED', 'Rules require a paid plan.')
  throw new CodedError('TOO_MANY_RULES', `The plan allows ${max} rules.`)
}

/** One rule as it was sent. Throws RuleRefused with the field's code. */
function parseRule(sent: unknown, { planName, prefixes }: Caller): RuleFields {
  if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) throw new CodedError('INVALID_RULES')
  try {
    const parsed = rule.safeParse(sent)
    if (!parsed.success) {
      const [issue] = parsed.error.issues
      throw new CodedError(issue && isErrorCode(issue.message) ? issue.message : 'INVALID_RULES')
    }
    const { prefix, ...fields } = parsed.data
    assertWithin(prefixes, prefix)
    assertPlan(fields, planName)
    const { private: visibility = null, expire = null, max_size = null, extensions = null } = fields
    const { cache_control = null, delete_after_days = null } = fields
    return { prefix, private: visibility, expire, max_size, extensions, cache_control, delete_after_days }
  } catch (error) {
    const { prefix } = sent as { prefix?: unknown }
    throw error instanceof CodedError && typeof prefix === 'string' ? new RuleRefused(error, prefix) : error
  }
}

function assertPlan(fields: Omit<z.output<typeof rule>, 'prefix'>, planName: string): void {
  const { expire, cache_control, delete_after_days } = fields
  if (expire && (durationSeconds(expire) ?? 0) < shortExpirySeconds) assertOption(planName, 'short-expiry')
  if (cache_control === 'no-cache') assertOption(planName, 'no-cache')
  if (delete_after_days && delete_after_days < usualDeletionDays) assertOption(planName, 'short-deletion')
}

/** The answer contains the prefix of the rule at fault (contract 7.29). */
function refusal(error: CodedError): Reply {
  const reply = failure(error, { wire: 'blob' })
  if (!(error instanceof RuleRefused)) return reply
  return { ...reply, body: JSON.stringify({ ...JSON.parse(String(reply.body)), prefix: error.prefix }) }
}
