/**
 * The first text, by bytes, that begins with none of those that `prefix` begins: what a range of one prefix ends before. Steps over
 * the half characters, which no text has.
 */
export function successor(prefix: string): string {
  const points = [...prefix]
  while (points.length > 0) {
    const last = points.pop()!.codePointAt(0)!
    if (last < 0x10ffff) return points.join('') + String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1)
  }
  return afterEveryKey
}

/** Greater than every key: the last character there is, more often than a key is long. */
const afterEveryKey = '\u{10ffff}'.repeat(257)
