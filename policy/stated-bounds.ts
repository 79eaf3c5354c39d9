import { z } from 'zod'
import type { ErrorCode } from './errors.ts'

// Fields whose bounds in the OpenAPI document come from the numbers that are checked.

interface Length {
  min?: number
  max: number
}

/** A string of `min` to `max` characters as people and JSON Schema count them: one outside of the basic plane counts once. */
export function characters({ min = 0, max }: Length, code?: ErrorCode) {
  return z
    .string(code && { error: code })
    .refine(text => isLengthWithin(text, min, max), code)
    .meta({ ...(min > 0 && { minLength: min }), maxLength: max })
}

/** Whether a text has `min` to `max` characters; one with over twice as many code units needs no counting. */
export function isLengthWithin(text: string, min: number, max: number): boolean {
  if (text.length > 2 * max) return false
  const length = [...text].length
  return length >= min && length <= max
}

/** The source of a regular expression for the whole numbers from `min`, at least 1, to `max`, without leading zeros. */
export function wholeNumbers(min: number, max: number): string {
  const digits = String(max).length
  const pieces: string[] = []
  for (let length = String(min).length; length <= digits; length++) {
    const from = Math.max(min, 10 ** (length - 1))
    const to = Math.min(max, 10 ** length - 1)
    pieces.push(...ofOneLength(String(from), String(to)))
  }
  return `(?:${pieces.join('|')})`
}

/** Both bounds have the same number of digits. */
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
