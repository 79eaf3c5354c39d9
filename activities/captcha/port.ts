/**
 * Tells people from programs: a widget in the page returns an answer once it is solved, and its provider verifies that.
 * Rejects with an CodedError: VALIDATION_TIMEOUT past the deadline, FAILED_TO_FETCH when the provider is unreachable,
 * VALIDATION_FAILED when its reply is invalid or it refuses this platform. A check that cannot be made counts as failed.
 */
export interface Captcha {
  /** When this answer was solved; null when it is invalid, used, or came from another address. */
  solvedAt(answer: string, address: string, deadline: AbortSignal): Promise<Date | null>
}
