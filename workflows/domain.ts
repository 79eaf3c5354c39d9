import {
  condition,
  continueAsNew,
  defineSignal,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import type { DomainSteps } from '../activities/domains/domain-steps.ts'
import { heartbeatMs } from '../policy/timeouts.ts'

/** The name was set, released, or is to be looked at now. */
const wake = defineSignal('wake')

/**
 * Postgres away, or a process that died: everything else is an outcome, which the row has. Names of many accounts share the queue fairly:
 * an account whose name servers are silent, for all of its names, must not keep those of others waiting.
 */
const stepsFor = (ownerId: string | undefined) =>
  proxyActivities<DomainSteps>({
    startToCloseTimeout: '3m',
    heartbeatTimeout: heartbeatMs,
    retry: { initialInterval: '200ms', maximumInterval: '10s' },
    ...(ownerId !== undefined && { priority: { fairnessKey: ownerId } }),
  })

/** After a step that did not get on, before the next look. */
const pauseMs = 15_000

/**
 * The life of a host name: proves that it is its account's, gets its certificate, renews it in time, and looks again each day. The row
 * decides what is due, and records why something failed; this only keeps the order, and the timers.
 */
export async function domain(hostname: string): Promise<void> {
  let wakeUps = 0
  setHandler(wake, () => {
    wakeUps++
  })

  async function pause(milliseconds: number, summary: string, seen = wakeUps): Promise<void> {
    setCurrentDetails(summary)
    await condition(() => wakeUps > seen, milliseconds, { summary })
  }

  let ownerId: string | undefined
  for (;;) {
    const seen = wakeUps
    const next = await stepsFor(ownerId).lookAtDomain(hostname)
    if (next.do === 'end') return
    ownerId = next.ownerId
    const steps = stepsFor(ownerId)
    if (next.do === 'wait') await pause(next.milliseconds, next.summary, seen)
    else {
      setCurrentDetails(next.summary)
      const done =
        next.do === 'order'
          ? await steps.openOrder(hostname)
          : next.do === 'certify'
            ? await certify(steps, hostname)
            : await steps.serveCertificate(hostname)
      if (!done) await pause(pauseMs, `${next.summary}: tries again in a moment`)
    }
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof domain>(hostname)
  }
}

/** False as soon as a step has failed; why is in the row. */
async function certify(steps: ReturnType<typeof stepsFor>, hostname: string): Promise<boolean> {
  return (
    (await steps.answerChallenge(hostname)) &&
    (await steps.awaitValidation(hostname)) &&
    (await steps.finalizeOrder(hostname)) &&
    (await steps.collectCertificate(hostname)) &&
    (await steps.serveCertificate(hostname))
  )
}
