interface Refusable {
  status: number
  headers: Headers
}

/** Repeats a request like a client that gets 503 with `Retry-After`, 20 times at most. Rejects if that header is missing. */
export async function comingAgain<A extends Refusable>(ask: () => Promise<A>): Promise<A> {
  for (let tries = 1; ; tries++) {
    const answer = await ask()
    if (answer.status !== 503 || tries === 20) return answer
    if (!answer.headers.get('retry-after')) throw new Error('503 without Retry-After')
  }
}

/** How often each outcome came. */
export const tally = (outcomes: readonly (string | number)[]): Record<string, number> =>
  Object.fromEntries([...new Set(outcomes)].map(kind => [kind, outcomes.filter(one => one === kind).length]))
