import test from 'ava'

/**
 * Call it once at the top level of a test file: a `fetch` whose answers may be left unread. The connection of such an answer stays open,
 * so it is let go after the file.
 */
export function fetchHalfRead(): typeof fetch {
  const answers: Response[] = []
  test.serial.after.always('let unread answers go', async () => {
    for (const { body, bodyUsed } of answers) if (!bodyUsed) await body?.cancel().catch(() => {}) // its server may have ended it
  })
  return async (...asked) => {
    const answer = await fetch(...asked)
    answers.push(answer)
    return answer
  }
}
