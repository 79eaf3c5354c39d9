import { readFileSync } from 'node:fs'
import { defaultPlans, type Plans, parsePlans } from '../../policy/accounts/plans.ts'
import type { Config } from '../../policy/config.ts'

/** The plans of this installation: the operator's file, else the table in code. Throws an Error that names the setting and the problem. */
export function plansOf({ plansFile }: Pick<Config, 'plansFile'>): Plans {
  if (plansFile === null) return defaultPlans
  try {
    return parsePlans(readFileSync(plansFile, 'utf8'))
  } catch (error) {
    throw new Error(`The setting PLANS_FILE names ${plansFile}. ${(error as Error).message}`)
  }
}
