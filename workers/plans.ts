import { readFileSync } from 'node:fs'
import type { Config } from '../policy/config.ts'
import { defaultPlans, type Plans, parsePlans } from '../policy/plans.ts'

/** The plans of this installation: the operator's file, else the table in code. */
export function plansOf(config: Config): Plans {
  return config.plansFile ? parsePlans(readFileSync(config.plansFile, 'utf8')) : defaultPlans
}
