import { type Rule, type RuleFields, ruleRestSeconds, sameRule } from '../../policy/objects/blob-rules.ts'
import { batched } from '../batched.ts'
import { type Db, transaction } from '../database.ts'
import { statement } from '../statement.ts'

const fields = `prefix, private, expire, max_size::float8 as max_size, extensions, cache_control, delete_after_days,
                created_at, active_from`

const byOwner = statement<Rule>(
  'blob-rules.by-owner',
  `select ${fields} from blob_rules where owner_id = $1 order by prefix`,
)

/** The rules of an account, by prefix; `ruleFor` (policy/objects/blob-rules.ts) finds the one for a name. */
export const listRules = (db: Db, ownerId: string): Promise<Rule[]> => byOwner(db, [ownerId])

const listBatched = batched<null, Rule[]>(async (db, ownerId, calls) => {
  const rules = await listRules(db, ownerId)
  return calls.map(() => rules)
})

/** As `listRules`; concurrent calls for one account share the statement. */
export const readRules = (db: Db, ownerId: string): Promise<Rule[]> => listBatched(db, ownerId, null)

const lock = `hashtextextended('rules/' || ?, 0)`

/** Prevents changes of this account's rules until the transaction ends; read them after this call. */
export async function lockRules(trx: Db, ownerId: string): Promise<void> {
  await trx.raw(`select pg_advisory_xact_lock_shared(${lock})`, [ownerId])
}

/**
 * Replaces the rules of the account and resolves to them as stored. An unchanged rule keeps its times; a new or changed one starts
 * over, with its deletions after a day.
 */
export async function saveRules(db: Db, ownerId: string, rules: readonly RuleFields[]): Promise<Rule[]> {
  return transaction(db, async trx => {
    await trx.raw(`select pg_advisory_xact_lock(${lock})`, [ownerId]) // concurrent changes are serialized
    const saved = new Map((await listRules(trx, ownerId)).map(rule => [rule.prefix, rule]))
    const changed = rules.filter(rule => {
      const before = saved.get(rule.prefix)
      return !before || !sameRule(before, rule)
    })
    const unchanged = rules.filter(rule => !changed.includes(rule)).map(rule => rule.prefix)
    await trx('blob_rules').where({ owner_id: ownerId }).whereNotIn('prefix', unchanged).delete()
    if (changed.length > 0)
      await trx('blob_rules').insert(
        changed.map(rule => ({
          ...rule,
          owner_id: ownerId,
          active_from:
            rule.delete_after_days === null ? null : trx.raw('now() + make_interval(secs => ?)', [ruleRestSeconds]),
        })),
      )
    return listRules(trx, ownerId)
  })
}
