export interface TapCount {
  passed: number
  failed: number
}

export interface TapReader {
  /** Takes one line without its end; gives what a person should see of it, or null. */
  line(text: string): string | null
  count(): TapCount
}

/** Reads the Test Anything Protocol as it comes: passed tests become one short line, failed ones keep their details. */
export function tapReader(): TapReader {
  const count: TapCount = { passed: 0, failed: 0 }
  let inFailure = false
  return {
    line(text) {
      const result = /^(not )?ok \d+ - (.*)$/.exec(text)
      if (result) {
        inFailure = result[1] !== undefined
        count[inFailure ? 'failed' : 'passed']++
        return `${inFailure ? '✘' : '✔'} ${result[2]}`
      }
      if (/^(TAP version|1\.\.\d+|# |---)/.test(text) || text.trim() === '') return null
      return inFailure || !text.startsWith('  ') ? text : null
    },
    count: () => ({ ...count }),
  }
}
