import { MiB } from '../../lib/bytes.ts'

/** Days of UTC that are retained, today included: client addresses are not stored for longer. */
export const retainedDays = 8

/** Length of a bucket of time; buckets begin at multiples of it, in UTC. */
export const bucketMs = 900_000

/** What one round of ingestion reads, and what it remembers. */
export const intake = {
  everyMs: 2000,
  /** Of one file; what is left waits for the next round. */
  sliceBytes: 8 * MiB,
  /** A run of bytes without an end of line that is longer is no line of the proxy, and is skipped. */
  maxLineBytes: 4 * MiB,
  /** Bytes at the start of a file by which another file under its name is noticed. */
  headBytes: 256,
  /** Kinds of agents that stay in memory, and how many new ones are examined in a second; those past it are `Unknown`. */
  agents: 20_000,
  newAgentsPerSecond: 2000,
  /** Texts of agents that a day records, and those of them that one application brings; of further ones only what they are is recorded. */
  agentsPerDay: 50_000,
  agentsPerAppAndDay: 5000,
  addresses: 50_000,
} as const

/** Max characters of a text that is stored; longer ones are cut. `header`: of the header whose beginning is the content type. */
export const textCaps = {
  agent: 300,
  path: 1024,
  query: 1024,
  referer: 1024,
  host: 255,
  contentType: 64,
  header: 255,
} as const

/**
 * Methods, paths, queries, referers and content types of one application in a day take at most 1/`textParts` of ANALYTICS_MB: else one with long made-up paths
 * would displace everybody's older days.
 */
export const textParts = 32

/**
 * What requests of a day take at most, past which they are only counted by time and status. Those of one application take 1/`parts` of ANALYTICS_MB;
 * of all applications of an account they take 1/`accountParts`, and so do their texts. A request takes 20 to 26 bytes without its texts.
 */
export const requestShares = { parts: 32, accountParts: 16, requestBytes: 32 } as const

/** Sums of requests, which questions without filters read instead of the requests. */
export const rollups = {
  /** Requests of a day, of all applications, that are summed in one run. */
  rows: 100_000,
  /** Of a day that is over, from this many on. */
  restRows: 10_000,
  /** An application with fewer among them has no sums. */
  appRows: 1000,
  /** A breakdown with fewer requests for each sum has none: they would save nothing. */
  rowsPerSum: 8,
} as const

/** Limits of the engine. */
export const engineLimits = { memoryMb: 512, threads: 1, scratchMb: 1024 } as const

/** Questions at the engine: how long one waits for a slot, and how long it may take, in milliseconds. One of each owner at a time. */
export const questionTimes = { slotMs: 3000, answerMs: 10_000 } as const

/** Answers that API processes remember. */
export const rememberedAnswers = {
  /** Given again for so long without a new question. */
  freshSeconds: 60,
  /** Given again for so long when the engine is busy. */
  busySeconds: 900,
  /** Of all answers of a process, as JSON. */
  maxBytes: 64 * MiB,
} as const

/** Seconds after which a caller that was refused may try again. */
export const busyRetrySeconds = 5

/** What stands for a value that is missing, or is not reported. */
export const stands = {
  unknown: 'Unknown',
  noCountry: 'XX',
  noReferer: 'Direct',
  otherMethod: 'Other',
  /** Of a request past the share of its application. No path begins so. */
  otherPath: 'Other',
  unverifiedBot: 'Unverified',
  /** Addresses of the platform itself: its machines, loopback, private networks. */
  platform: 'BERTH-PLATFORM',
} as const

/** Methods and protocols that are reported by their names. */
export const methods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH'] as const
export const protocols = ['HTTP/0.9', 'HTTP/1.0', 'HTTP/1.1', 'HTTP/2.0', 'HTTP/3.0'] as const

/** A visit is a page that was opened from elsewhere: GET, this media type, 2xx or 3xx, no bot, and no referer of the same host. */
export const visits = { method: 'GET', contentType: 'text/html', fromStatus: 200, toStatus: 399 } as const

/** Breakdowns by bucket, and those over the whole window; each with the max number of its types, by requests. */
export const breakdowns = {
  visits: { timed: true, types: 1 },
  countries: { timed: true, types: 25 },
  devices: { timed: true, types: 25 },
  os: { timed: true, types: 25 },
  browsers: { timed: true, types: 25 },
  protocols: { timed: true, types: 25 },
  methods: { timed: true, types: 25 },
  paths: { timed: true, types: 25 },
  referers: { timed: true, types: 25 },
  providers: { timed: true, types: 25 },
  ips: { timed: false, types: 100 },
  status_codes: { timed: false, types: 1000 },
  bots: { timed: false, types: 100 },
  content_types: { timed: false, types: 100 },
} as const satisfies Record<string, { timed: boolean; types: number }>

export type Breakdown = keyof typeof breakdowns

export const breakdownNames = Object.keys(breakdowns) as Breakdown[]

/** The newest lines of a window that are listed. */
export const logEntries = 1000

/** Paths that are ranked: by errors, and by latency from this many requests on. */
export const rankedPaths = { errors: 25, slowest: 25, fromRequests: 20 } as const

/** Entries of breakdowns by country and place of the edge. */
export const rankedPlaces = 25

/** The engine does not answer now: no slot, over its time, switched off, or away. Never a defect. */
export class Busy extends Error {
  override readonly name = 'Busy'
}
