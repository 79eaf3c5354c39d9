import { setTimeout as sleep } from 'node:timers/promises'

/** Waits for what another process or connection does, and fails after so many seconds. */
export async function comesTrue(is: () => boolean | Promise<boolean>, seconds = 60): Promise<void> {
  for (const deadline = Date.now() + seconds * 1000; !(await is()); await sleep(20))
    if (Date.now() > deadline) throw new Error(`It did not come true within ${seconds} s: ${is}`)
}
