import { dayMs } from '../../lib/time.ts'
import { CodedError } from '../errors.ts'

const usualMs = dayMs
const maxMs = 7 * dayMs
const minuteMs = 60_000

/** A span of time, in Unix milliseconds; `to` is not part of it. */
export interface TimeWindow {
  from: number
  to: number
}

export interface RequestedWindow {
  start?: string | undefined
  end?: string | undefined
}

/** ISO 8601: a day, or a time with seconds and their fractions left out at will, in UTC or with an offset. */
const isoForm = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?$/

/**
 * The window of a request. Without both ends it is the last 24 hours, without one of them 24 hours from the other. Throws
 * INVALID_TIME_RANGE for what is not ISO 8601, ends before it starts, is longer than 7 days, or starts in the future.
 */
export function requestedWindow({ start, end }: RequestedWindow, now: number): TimeWindow {
  const given = { from: start === undefined ? null : timeOf(start), to: end === undefined ? null : timeOf(end) }
  const to = given.to ?? (given.from === null ? now : given.from + usualMs)
  const from = given.from ?? to - usualMs
  if (from >= to || to - from > maxMs || from > now) throw new CodedError('INVALID_TIME_RANGE')
  return { from, to }
}

function timeOf(text: string): number {
  // A time without an offset is UTC, not that of this machine.
  const withZone = text.includes('T') && !/(Z|[+-]\d{2}:\d{2})$/.test(text) ? `${text}Z` : text
  const time = isoForm.test(text) ? Date.parse(withZone) : Number.NaN
  // Date.parse takes 30 February for 2 March.
  const day = Date.parse(`${text.slice(0, 10)}T00:00:00Z`)
  if (Number.isNaN(time) || Number.isNaN(day) || new Date(day).toISOString().slice(0, 10) !== text.slice(0, 10))
    throw new CodedError('INVALID_TIME_RANGE')
  return time
}

/** The part of a window that an application has existed in; null when there is none. */
export function existingWindow({ from, to }: TimeWindow, createdAt: number): TimeWindow | null {
  const since = Math.max(from, createdAt)
  return since < to ? { from: since, to } : null
}

/**
 * Names a window to the minute. One that ends now is named by its length: a caller who requests the last 24 hours again asks the same question,
 * and may be given an earlier answer while the engine is busy.
 */
export function windowName({ from, to }: TimeWindow, now: number): string {
  const minutes = (ms: number) => Math.floor(ms / minuteMs)
  return Math.abs(to - now) < minuteMs
    ? `last/${Math.round((to - from) / minuteMs)}`
    : `${minutes(from)}/${minutes(to)}`
}
