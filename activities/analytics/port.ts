import type { Breakdown } from '../../policy/network/analytics-terms.ts'
import type { Filters } from '../../policy/network/filters.ts'
import type { TimeWindow } from '../../policy/network/windows.ts'

interface About {
  appId: string
  /** The owner of the application: one question of each owner is answered at a time. */
  ownerId: string
  window: TimeWindow
}

/** A question about the requests of one application. */
export type Question = About &
  (
    | { kind: 'analytics'; filters: Filters }
    | { kind: 'errors'; include4xx: boolean }
    | { kind: 'logs' }
    | { kind: 'performance' }
  )

/** One type of a breakdown, in one bucket or, where the breakdown has no buckets, in the whole window. */
export interface TrafficEntry {
  type: string
  /** ISO: start of the bucket, or of the window. */
  date: string
  visits: number
  requests: number
  bytes: number
}

export type TrafficAnswer = Record<Breakdown, TrafficEntry[]>

/** Numbers of requests by their status. */
type ByStatus = Record<string, number>

export interface ErrorsAnswer {
  summary: { total: number; by_class: { '4xx': number; '5xx': number } }
  /** `requests` and `total` are the same number. */
  by_status: { status: number; requests: number; total: number }[]
  timeseries: { date: string; buckets: ByStatus; total: number }[]
  top_paths: { path: string; method: string; total: number; by_status: ByStatus }[]
  by_method: { method: string; total: number; by_status: ByStatus }[]
}

/** Newest first. */
export interface LogLine {
  timestamp: string
  ip: string | null
  country: string | null
  location: string | null
  /** `NAME (NUMBER)`. */
  asn: string
  agent: string | null
  /** Of a bot. */
  category: string | null
  mitigated: boolean
  method: string
  host: string
  path: string
  query: string | null
  protocol: string
  referer: string | null
  status: number
  contentType: string | null
  cache: string | null
}

/** Whole milliseconds until the first byte: to the visitor (edge), and from the application (origin). */
export interface Percentiles {
  p50: number
  p95: number
  p99: number
}

type Latency = Pick<Percentiles, 'p50' | 'p95'> & { requests: number }

export interface PerformanceAnswer {
  summary: { edge: Percentiles; origin: Percentiles; requests: number }
  timeseries: { date: string; requests: number; edge: Percentiles; origin: Percentiles }[]
  countries: ({ type: string } & Latency)[]
  colos: ({ type: string; city: string | null; country: string | null } & Latency)[]
  slowest_paths: { path: string; p95: number; p99: number; requests: number }[]
}

export interface Answers {
  analytics: TrafficAnswer
  errors: ErrorsAnswer
  logs: LogLine[]
  performance: PerformanceAnswer
}

/** Questions about the requests that the proxy has logged. */
export interface Analytics {
  /** Throws Busy when there is no answer now, for instance once the signal aborts. What it has no requests of is answered with empty lists and zeros. */
  ask<Q extends Question>(question: Q, signal?: AbortSignal): Promise<Answers[Q['kind']]>
}

/** A run of whole lines of one access log. */
export interface Slice {
  /** Day of UTC, `2026-11-27`: all lines of a file are of one day. */
  day: string
  /** The name of the file, and its first bytes as text. */
  file: string
  head: string
  /** Offset in the file of the first byte after the lines. */
  end: number
  lines: Buffer
}

/** How far a file has been taken in. */
export interface Progress {
  head: string
  offset: number
}

/** What takes in lines of the access log, each exactly once. */
export interface Intake {
  /** By file. */
  progressOf(day: string): Promise<ReadonlyMap<string, Progress>>
  /**
   * Stores the lines of applications, and the progress with them: both or, when it throws, neither. Resolves to the number of requests that are stored
   * one by one; `onlyCounts`: none is. Lines that are no JSON are left out.
   */
  take(slice: Slice, onlyCounts?: boolean): Promise<number>
}
