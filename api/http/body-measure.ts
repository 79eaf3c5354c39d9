import { denseJson } from '../../policy/body-budgets.ts'

export interface BodyMeasure {
  /** Integers of up to three digits in a list, which cost a parser 8 bytes each. */
  bytes: number
  /** All other values that a parser would create. */
  values: number
}

const codeOf = (sign: string): number => sign.charCodeAt(0)
const [quote, backslash, comma] = [codeOf('"'), codeOf('\\'), codeOf(',')]
const [list, object, zero, nine, space] = [codeOf('['), codeOf('{'), codeOf('0'), codeOf('9'), codeOf(' ')]

/**
 * An upper bound of the values in a JSON text, counted without parsing it: 64 MB of text can become 2 GB of objects, and a thread that
 * runs out of memory ends the whole process.
 */
export function measureBody(text: Uint8Array): BodyMeasure {
  const measure = { bytes: 0, values: 1 }
  /** Digits since the last character that is neither a digit nor white space, and that character. */
  let digits = 0
  let last = 0
  for (let at = 0; at < text.length; at++) {
    const sign = text[at]!
    if (sign <= space) continue
    if (sign >= zero && sign <= nine) {
      digits++
      continue
    }
    if (sign === comma && digits > 0 && digits < 4 && (last === comma || last === list)) measure.bytes++
    else if (sign === comma || sign === list || sign === object) measure.values++
    else if (sign === quote) at = endOfText(text, at)
    digits = 0
    last = sign
  }
  return measure
}

/** Whether a JSON text has so many values that to parse it would delay the other requests of the process. */
export function isDense(text: Uint8Array): boolean {
  if (text.length <= denseJson.bytes) return false
  const { bytes, values } = measureBody(text)
  return values + bytes / denseJson.bytesPerValue > denseJson.values
}

function endOfText(text: Uint8Array, start: number): number {
  let at = start + 1
  while (at < text.length && text[at] !== quote) at += text[at] === backslash ? 2 : 1
  return at
}
