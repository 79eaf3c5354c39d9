import type { Analytics, Answers, Question } from '../../activities/analytics/port.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { Busy, questionTimes } from '../../policy/network/analytics-terms.ts'

/** For the way there and back, beyond what a question may take at the engine, in milliseconds. */
const graceMs = 2000

/** What telling it something may take, in milliseconds. */
const tellingMs = 5000

/** Asks the process `analytics` over HTTP. Throws Busy when it refuses or is away, and another Error when it fails. */
export function httpAnalytics(url: string, key: string): Analytics {
  return {
    async ask<Q extends Question>(question: Q, signal?: AbortSignal): Promise<Answers[Q['kind']]> {
      const deadlineMs = questionTimes.slotMs + questionTimes.answerMs + graceMs
      const response = await fetch(`${url}/ask`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
        body: JSON.stringify(question),
        signal: deadlineSignal(deadlineMs, ...(signal ? [signal] : [])),
        redirect: 'error',
      }).catch(away)
      if (response.status === 503) throw new Busy(await response.text().catch(away))
      if (!response.ok) throw new Error(`The process analytics answered with ${response.status}.`)
      return (await response.json().catch(away)) as Answers[Q['kind']]
    },
  }
}

/** Tells the process `analytics` the account of each application. Throws when it is away. */
export async function tellAccounts(
  url: string,
  key: string,
  accounts: readonly (readonly [string, string])[],
): Promise<void> {
  const response = await fetch(`${url}/accounts`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(accounts),
    signal: AbortSignal.timeout(tellingMs),
    redirect: 'error',
  })
  if (!response.ok) throw new Error(`The process analytics answered with ${response.status}.`)
}

/** Answers every question of an installation without analytics. */
export const noAnalytics: Analytics = {
  ask: async () => {
    throw new Busy('This platform collects no analytics: its operator has switched them off.')
  },
}

/** A connection that fails, or ends in the middle: the process was restarted, or took too long. */
function away(): never {
  throw new Busy('The process that answers is away, or took too long.')
}
