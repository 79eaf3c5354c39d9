export interface ByteRange {
  /** Inclusive, both. */
  from: number
  to: number
}

/**
 * The range that a `Range` header requests of a body of `size` bytes: null (the whole) for no header, several ranges or
 * another form, 'beyond' when the range lies outside of the body (RFC 9110, 14).
 */
export function rangeOf(header: string | undefined, size: number): ByteRange | null | 'beyond' {
  const [, first, last] = /^bytes=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(header ?? '') ?? []
  if (first === undefined || last === undefined || (first === '' && last === '')) return null
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'beyond' : { from: size - length, to: size - 1 }
  }
  const from = Number(first)
  const to = last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (last !== '' && Number(last) < from) return null
  return from >= size ? 'beyond' : { from, to }
}
