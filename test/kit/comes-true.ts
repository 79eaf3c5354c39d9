import { setTimeout as sleep } from 'node:timers/promises'

/** Undefined is what is asked of something that is not there yet. */
type Truth = boolean | undefined

/** Waits for what another process or connection does, and fails after `seconds`. */
export async function comesTrue(is: () => Truth | Promise<Truth>, seconds = 60): Promise<void> {
  const looks = lookingAgain(seconds)
  while (!(await is())) if (!(await looks.again())) throw new Error(`It did not come true within ${seconds} s: ${is}`)
}

/**
 * Pauses between looks at something, up to a deadline. They grow to a tenth of the time that it takes, 100 ms at most: a file waits in many tests
 * at once, and a look every 20 ms cost more than what it waited for.
 */
export function lookingAgain(seconds: number): { again(): Promise<boolean> } {
  const startedAt = performance.now()
  return {
    async again() {
      const waited = performance.now() - startedAt
      if (waited > seconds * 1000) return false
      await sleep(Math.min(Math.max(waited / 10, 20), 100))
      return true
    },
  }
}
