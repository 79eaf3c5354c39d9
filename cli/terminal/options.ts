/** Throws an Error unless the text is a whole number. */
export function secondsFrom(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new Error('--wait must be a whole number of seconds.')
  return Number(text)
}

/** Throws an Error unless the text is a whole number above 0. */
export function limitFrom(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error('--limit must be a whole number from 1 to 999999.')
  return Number(text)
}
