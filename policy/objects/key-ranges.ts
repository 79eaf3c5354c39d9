/**
 * The smallest text, by bytes, that is greater than every text with this prefix: the exclusive end of the prefix's range. Skips
 * surrogates, which no text contains.
 */
export function successor(prefix: string): string {
  const points = [...prefix]
  while (points.length > 0) {
    const last = points.pop()!.codePointAt(0)!
    if (last < 0x10ffff) return points.join('') + String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1)
  }
  return afterEveryKey
}

/** Greater than every key: the last Unicode character, repeated more often than a key is long. */
const afterEveryKey = '\u{10ffff}'.repeat(257)
