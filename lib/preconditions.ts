import { type ByteRange, rangeOf } from './byte-range.ts'
import { httpDate } from './http-dates.ts'

/** What a body is told apart by. `etag` has no quotes; dates have whole seconds on the wire. */
export interface Validators {
  etag: string
  modified: Date
  size: number
}

/** What a reader gets: the whole (200), a range of it (206), or none of it, and why not. */
export interface Portion {
  status: 200 | 206 | 304 | 412 | 416
  /** Null = the whole. */
  range: ByteRange | null
}

type Headers = Record<string, string | string[] | undefined>

/** The conditions of a GET or HEAD in the order of RFC 9110 (13.2.2), and its range; only a GET has one. */
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
 * A part that is asked for continues the body it was begun with, or is none. Only a tag tells: within the second of a date a body may
 * have been replaced, so that a date is no strong validator (RFC 9110, 8.8.2.2).
 */
function sameBody(ifRange: string | undefined, body: Validators): boolean {
  return ifRange === undefined || tagsOf(ifRange)[0] === body.etag
}

/** The star stands alone and without quotes; within them it is a tag like any other. */
const isAny = (match: string): boolean => match.trim() === '*'

/** Tags without their quotes; a weak one keeps its mark, for it does not say that the bytes are the same. */
const tagsOf = (list: string): string[] =>
  (list.match(/(?:W\/)?"[^"]*"|[^\s,]+/g) ?? []).map(tag => tag.replace(/^(W\/)?"(.*)"$/, '$1$2'))
const plain = (tag: string): string => tag.replace(/^W\//, '')

const one = (value: string | string[] | undefined): string | undefined => value?.toString()
const seconds = (date: Date): number => Math.floor(date.getTime() / 1000)

/** Whole seconds; undefined for what is no date, which is as if it was not sent. */
const dateOf = (value: string | string[] | undefined): number | undefined => httpDate(one(value)?.trim() ?? '')
