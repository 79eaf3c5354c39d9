import { type ByteRange, rangeOf } from './byte-range.ts'
import { httpDate } from './http-dates.ts'

/** Validators of a body. `etag` has no quotes; dates have whole seconds on the wire. */
export interface Validators {
  etag: string
  modified: Date
  size: number
}

/** What a reader gets: the whole body (200), a range of it (206), or nothing, with the reason. */
export interface Portion {
  status: 200 | 206 | 304 | 412 | 416
  /** Null = the whole. */
  range: ByteRange | null
}

type Headers = Record<string, string | string[] | undefined>

/** Evaluates the conditions of a GET or HEAD in the order of RFC 9110 (13.2.2), and the range of a GET. */
export function portionOf(method: string | undefined, headers: Headers, body: Validators): Portion {
  if (isStale(headers, body)) return { status: 412, range: null }
  if (isKnown(headers, body)) return { status: 304, range: null }
  const ranged = method === 'GET' && sameBody(one(headers['if-range']), body)
  const range = ranged ? rangeOf(one(headers.range), body.size) : null
  if (range === 'beyond') return { status: 416, range: null }
  return range ? { status: 206, range } : { status: 200, range: null }
}

function isStale(headers: Headers, body: Validators): boolean {
  const match = one(headers['if-match'])
  if (match !== undefined) return !isAny(match) && !tagsOf(match).includes(body.etag)
  const since = dateOf(headers['if-unmodified-since'])
  return since !== undefined && seconds(body.modified) > since
}

function isKnown(headers: Headers, body: Validators): boolean {
  const match = one(headers['if-none-match'])
  if (match !== undefined) return isAny(match) || tagsOf(match).map(plain).includes(body.etag)
  const since = dateOf(headers['if-modified-since'])
  return since !== undefined && seconds(body.modified) <= since
}

/**
 * Whether a requested range continues the same body. Only a tag proves it: a body may be replaced within the second of a date,
 * so that a date is not a strong validator (RFC 9110, 8.8.2.2).
 */
function sameBody(ifRange: string | undefined, body: Validators): boolean {
  return ifRange === undefined || tagsOf(ifRange)[0] === body.etag
}

/** The star is alone and without quotes; in quotes it is an ordinary tag. */
const isAny = (match: string): boolean => match.trim() === '*'

/** Tags without their quotes; a weak one keeps its prefix, because it does not promise equal bytes. */
const tagsOf = (list: string): string[] =>
  (list.match(/(?:W\/)?"[^"]*"|[^\s,]+/g) ?? []).map(tag => tag.replace(/^(W\/)?"(.*)"$/, '$1$2'))
const plain = (tag: string): string => tag.replace(/^W\//, '')

const one = (value: string | string[] | undefined): string | undefined => value?.toString()
const seconds = (date: Date): number => Math.floor(date.getTime() / 1000)

/** Whole seconds; an invalid date is ignored (undefined). */
const dateOf = (value: string | string[] | undefined): number | undefined => httpDate(one(value)?.trim() ?? '')
