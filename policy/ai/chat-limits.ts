import { MiB } from '../../lib/bytes.ts'

/** Limits of one call of the AI gateway (contract 13.2 and 13.4). Those of a plan stand in its row. */
export const chatLimits = {
  bodyBytes: 2 * MiB,
  messages: 100,
  tools: 32,
  maxTemperature: 2,
  /** From the arrival of the request until its answer. */
  seconds: 90,
  /** After this the slot of a call is free, whatever became of its process. */
  slotSeconds: 95,
  /** Near the end of a budget an answer may be cut to what is left; below this a call is refused instead. */
  minAnswerTokens: 16,
} as const

/** The name under which the model of an installation appears, whatever serves it (contract 13.3). */
export const modelName = 'cubic'

/** How long usage is retained, in days. */
export const usageDays = 90

/** Settling a call: attempts, the pause between them, and the time for all, in milliseconds. Past it the slot ends by itself. */
export const settling = { tries: 3, pauseMs: 100, withinMs: 5000 } as const
