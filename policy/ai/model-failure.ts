import type { TokenUsage } from './chat.ts'

/**
 * `refused`: the model says that the request is wrong (400, 422), usually a mistake in calling tools. `unavailable`: no model could
 * answer. `aborted`: the signal did.
 */
export type ModelFailureReason = 'refused' | 'unavailable' | 'aborted'

/** Why there is no answer. The message never contains a word of the model's or of the request's: both may hold secrets. */
export class ModelFailure extends Error {
  override name = 'ModelFailure'

  constructor(
    readonly reason: ModelFailureReason,
    message: string,
    /** What is to be paid for; undefined when nothing is. With `aborted` the prompt counts once it was sent, also if no answer has begun. */
    readonly generated?: TokenUsage,
  ) {
    super(message)
  }
}
