import { setTimeout as sleep } from 'node:timers/promises'

/** Waits for what another process or connection does, and fails after half a minute. */
export async function comesTrue(is: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 30_000; !(await is()); await sleep(20))
    if (Date.now() > deadline) throw new Error(`It never came true: ${is}`)
}
