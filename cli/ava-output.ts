export interface TestCount {
  passed: number
  failed: number
}

export interface OutputReader {
  /** Takes one line without its end. */
  line(text: string): void
  count(): TestCount
}

/**
 * Counts the lines of ava's own reporter as they come, so that a run that is cut is counted up to there. Its machine-readable one
 * (TAP) is not used: it ends the run when a failure holds a value that it cannot write down.
 */
export function outputReader(): OutputReader {
  const count: TestCount = { passed: 0, failed: 0 }
  return {
    line(text) {
      if (/^\s+✔ /.test(text)) count.passed++
      // A failed test or hook, a file that ended early, and errors outside of any test.
      else if (/^\s+✘ /.test(text) || /^\s+(Uncaught exception|Unhandled rejection) in /.test(text)) count.failed++
    },
    count: () => ({ ...count }),
  }
}
