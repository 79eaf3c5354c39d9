import { activityInfo } from '@temporalio/activity'
import { refusal } from '../failures.ts'

/**
 * Steps that only a worker's own workflows run, as local activities. The worker also offers them on its queue, where everyone who
 * reaches Temporal can request them: that is refused with ACTION_FAILED.
 */
// biome-ignore lint/suspicious/noExplicitAny: activities of a group differ in their arguments
export function localSteps<T extends Record<string, (...args: any[]) => Promise<unknown>>>(group: T): T {
  const wrapped = Object.entries(group).map(([name, step]) => [
    name,
    async (...args: unknown[]) => {
      if (!activityInfo().isLocal) throw refusal('ACTION_FAILED', `${name} is a step of this worker's own workflows.`)
      return step(...args)
    },
  ])
  return Object.fromEntries(wrapped)
}
