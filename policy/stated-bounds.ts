import { z } from 'zod'
import type { ErrorCode } from './errors.ts'

// Fields whose bounds the API documents tell, made of the numbers that are checked.

interface Length {
  least?: number
  most: number
}

/** A text of so many characters as people and JSON Schema count them: one outside of the basic plane counts once. */
export function characters({ least = 0, most }: Length, code?: ErrorCode) {
  return z
    .string(code && { error: code })
    .refine(text => isWithin(text, least, most), code)
    .meta({ ...(least > 0 && { minLength: least }), maxLength: most })
}

/** Whether a text has `least` to `most` characters; one of twice as many code units needs no counting. */
export function isWithin(text: string, least: number, most: number): boolean {
  if (text.length > 2 * most) return false
  const length = [...text].length
  return length >= least && length <= most
}

/** The source of a regular expression for the whole numbers from `least`, at least 1, to `most`, without leading zeros. */
export function wholeNumbers(least: number, most: number): string {
  const digits = String(most).length
  const pieces: string[] = []
  for (let length = String(least).length; length <= digits; length++) {
    const from = Math.max(least, 10 ** (length - 1))
    const to = Math.min(most, 10 ** length - 1)
    pieces.push(...ofOneLength(String(from), String(to)))
  }
  return `(?:${pieces.join('|')})`
}

/** Numbers of as many digits as both bounds have. */
function ofOneLength(from: string, to: string): string[] {
  const [low, high] = [from[0]!, to[0]!]
  if (from.length === 1) return [digit(low, high)]
  if (low === high) return ofOneLength(from.slice(1), to.slice(1)).map(rest => low + rest)
  const rest = from.length - 1
  const isFirst = /^0*$/.test(from.slice(1))
  const isLast = /^9*$/.test(to.slice(1))
  const lowest = isFirst ? [] : ofOneLength(from.slice(1), '9'.repeat(rest)).map(text => low + text)
  const highest = isLast ? [] : ofOneLength('0'.repeat(rest), to.slice(1)).map(text => high + text)
  const [begin, end] = [Number(low) + (isFirst ? 0 : 1), Number(high) - (isLast ? 0 : 1)]
  const middle = begin > end ? [] : [`${digit(String(begin), String(end))}\\d${rest > 1 ? `{${rest}}` : ''}`]
  return [...lowest, ...middle, ...highest]
}

const digit = (low: string, high: string): string => (low === high ? low : `[${low}-${high}]`)
