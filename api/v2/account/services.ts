import type { Downgrades } from '../../../workflows/client.ts'

export interface AccountServices {
  /** Starts steps to a lower plan. */
  downgrades: Downgrades
}
