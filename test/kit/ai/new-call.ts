import type { NewCall } from '../../../db/ai/ai-calls.ts'
import { newId } from '../../../policy/ids.ts'

/** A call of an account with many slots, without a pause, and with tokens for all that a test sends. */
export const newCall = (userId: string, changes: Partial<NewCall> = {}): NewCall => ({
  id: newId(),
  userId,
  keyId: null,
  tokens: { prompt: 10, answer: 90 },
  slots: 100,
  pacingSeconds: 0,
  budgets: { account: 1_000_000, key: null, platform: null },
  ...changes,
})
