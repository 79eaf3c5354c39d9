import { tierOf } from '../accounts/plans.ts'
import { CodedError } from '../errors.ts'

/** Options of blob storage that only some plans include (contract 7.40), with the message for other plans. */
const options = {
  metadata: [['pro', 'enterprise'], 'Metadata requires a Pro or Enterprise plan.'],
  'share-password': [['pro', 'enterprise'], 'A password requires a Pro or Enterprise plan.'],
  'short-expiry': [['enterprise'], 'An expiry under 7 days requires an Enterprise plan.'],
  'short-deletion': [['enterprise'], 'A rule that deletes before 7 days requires an Enterprise plan.'],
  'no-cache': [['enterprise'], 'cache_control no-cache requires an Enterprise plan.'],
} as const satisfies Record<string, readonly [tiers: readonly string[], message: string]>

export type BlobOption = keyof typeof options

/** Throws UPGRADE_REQUIRED, with a message that names the plans with the option. */
export function assertOption(planName: string, option: BlobOption): void {
  const [tiers, message] = options[option]
  if (!(tiers as readonly string[]).includes(tierOf(planName))) throw new CodedError('UPGRADE_REQUIRED', message)
}

/** Whether an account may store and publish; without a paid plan it can still view and delete objects, and make them private. */
const isPaid = (planName: string): boolean => tierOf(planName) !== 'free'

/** Throws PERMISSION_DENIED for an account without an active paid plan. */
export function assertPaid(planName: string): void {
  if (!isPaid(planName)) throw new CodedError('PERMISSION_DENIED')
}
