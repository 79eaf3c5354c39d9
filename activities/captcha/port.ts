/**
 * Who tells people from programs: a widget in the page gives an answer once it is solved, and its provider says whether that is
 * genuine. Rejects with an ApiError: VALIDATION_TIMEOUT past the deadline, FAILED_TO_FETCH when the provider is away,
 * VALIDATION_FAILED when what it says makes no sense or it refuses to speak to this platform. Whoever cannot be asked has said no.
 */
export interface Captcha {
  /** When this answer was solved; null when it is none, is spent, or was given from another address. */
  solvedAt(answer: string, address: string, deadline: AbortSignal): Promise<Date | null>
}
