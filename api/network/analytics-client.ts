import type { Analytics, Answers, Question } from '../../activities/analytics/port.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { Busy, questionTimes } from '../../policy/network/analytics-terms.ts'

/** For the way there and back, beyond what a question may take at the engine, in milliseconds. */
const graceMs = 2000

/** For accounts that are sent to it, in milliseconds. */
const sendingMs = 5000

/** Asks the process `analytics` over HTTP. Throws Busy when it refuses or is away, and another Error when it fails. */
export function httpAnalytics(url: string, key: string): Analytics {
  return {
    async ask<Q extends Question>(question: Q, signal?: AbortSignal): Promise<Answers[Q['kind']]> {
      const deadlineMs = questionTimes.slotMs + questionTimes.answerMs + graceMs
      const deadline = deadlineSignal(deadlineMs, ...(signal ? [signal] : []))
      const response = await post(`${url}/ask`, key, question, deadline).catch(away)
      if (response.status === 503) throw new Busy(await response.text().catch(away))
      demandOk(response)
      return (await response.json().catch(away)) as Answers[Q['kind']]
    },
  }
}

/** Sends the process `analytics` the account of each application. Throws when it is away. */
export async function sendAccounts(
  url: string,
  key: string,
  accounts: readonly (readonly [string, string])[],
): Promise<void> {
  const response = await post(`${url}/accounts`, key, accounts, AbortSignal.timeout(sendingMs))
  demandOk(response)
}

const post = (url: string, key: string, body: unknown, signal: AbortSignal): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal,
    redirect: 'error',
  })

function demandOk({ ok, status }: Response): void {
  if (!ok) throw new Error(`The process analytics answered with ${status}.`)
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
