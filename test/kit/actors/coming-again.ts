interface Refusable {
  status: number
  headers: Headers
}

/** Asks as a client does whom 503 tells to come again, 20 times at most. Rejects where it does not say when. */
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
