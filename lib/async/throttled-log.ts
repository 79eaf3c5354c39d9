/**
 * Passes on up to `max` texts in each period of `ms` milliseconds, and counts the others: the first one of a later period says how many they
 * were. For lines of a log whose number others decide.
 */
export function throttledLog(
  max: number,
  ms: number,
  pass: (text: string, leftOut: number) => void,
): (text: string) => void {
  let endsAt = 0
  let passed = 0
  let leftOut = 0
  return text => {
    const now = performance.now()
    if (now >= endsAt) {
      endsAt = now + ms
      passed = 0
    }
    if (passed === max) {
      leftOut++
      return
    }
    passed++
    pass(text, leftOut)
    leftOut = 0
  }
}
