import type { Analytics, Answers, Question } from '../../activities/analytics/port.ts'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { Busy, questionTimes } from '../../policy/network/analytics-terms.ts'

/**
 * Bounds the questions at an engine: a number of them at a time, and one of each owner, whose further questions wait for its own only. One that
 * takes too long is interrupted, and its slot is free once the engine has stopped working on it.
 */
export function slottedAnalytics(
  engine: Analytics,
  atOnce: number,
  times: Readonly<Record<keyof typeof questionTimes, number>> = questionTimes,
): Analytics {
  const slots = new FairSlots({ atOnce, perSubject: 1 })
  return {
    async ask<Q extends Question>(question: Q, signal?: AbortSignal): Promise<Answers[Q['kind']]> {
      const leave = await slots.enter(question.ownerId, times.slotMs)
      if (!leave) throw new Busy('Other questions are being answered.')
      try {
        if (signal?.aborted) throw new Busy('The caller has left.')
        return await engine.ask(question, deadlineSignal(times.answerMs, ...(signal ? [signal] : [])))
      } finally {
        leave()
      }
    },
  }
}
