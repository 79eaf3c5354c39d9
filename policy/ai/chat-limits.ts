import { MiB } from '../../lib/bytes.ts'

/** Limits of one call of the AI gateway (contract 13.2 and 13.4). Those of a plan stand in its row. */
export const chatLimits = {
  bodyBytes: 2 * MiB,
  messages: 100,
  tools: 32,
  /** Of one message. */
  toolCalls: 128,
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

/**
 * Settling a call, in milliseconds: attempts after growing pauses, for a while before the answer is sent, and then until `withinMs` after
 * the call has ended. Its slot may have ended before; it is charged nevertheless.
 */
export const settling = { pauseMs: 50, maxPauseMs: 2000, beforeAnswerMs: 5000, withinMs: 95_000 } as const

/** Prompts whose tokens are counted concurrently, of all accounts and of one; a prompt estimated above `windows` context windows is not counted. */
export const tokenizing = { atOnce: 16, perSubject: 1, windows: 4 } as const
