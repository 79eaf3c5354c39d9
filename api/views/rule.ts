import type { Rule } from '../../policy/objects/blob-rules.ts'

/** Contract 7.28: only the fields that are set. */
export const ruleView = ({ created_at, active_from, ...fields }: Rule) => ({
  prefix: fields.prefix,
  private: fields.private ?? undefined,
  expire: fields.expire ?? undefined,
  max_size: fields.max_size ?? undefined,
  extensions: fields.extensions ?? undefined,
  cache_control: fields.cache_control ?? undefined,
  delete_after_days: fields.delete_after_days ?? undefined,
  created_at: created_at.toISOString(),
  active_from: active_from?.toISOString(),
})
