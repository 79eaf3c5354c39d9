import { MiB } from '../lib/bytes.ts'

/** How long requests wait for an operation, in milliseconds (contract 1.13). Existing clients wait up to 120 s. */
export const commandTimeouts = {
  /** A queued operation is claimed within this, or expires. */
  claimMs: 30_000,
  /** Max total wait for a running one; no further step of it starts after that (policy/apps/command-times.ts). */
  holdMs: 95_000,
  /** A creation of a database that has not ended by then is cancelled, so that its end is known within `holdMs`. */
  creationMs: 85_000,
  /** Wait for an operation that continues without its caller, claimed or not. */
  backgroundMs: 90_000,
} as const

/** As `commandTimeouts`; tests use shorter ones. */
export type CommandTimeouts = Readonly<Record<keyof typeof commandTimeouts, number>>

/** Timeouts of Postgres, in milliseconds; a request that needs it is refused within 3 s. */
export const databaseTimeouts = {
  /** For a connection of the pool, or a new one. */
  connectionMs: 2000,
  /** The server cancels a statement after this; those of requests earlier. */
  statementMs: 5000,
  requestStatementMs: 2300,
  /** Additional time for the answer: a stopped server cancels nothing. */
  answerMs: 500,
  /** The server ends a session that pauses for this long within a transaction: a suspended process must not keep its locks. */
  idleTransactionMs: 10_000,
  /** The server ends a session whose client's machine has not answered for this long. */
  clientAwayMs: 25_000,
  /** Max age of a connection; the next one checks which installation the database belongs to. */
  connectionLifeMs: 60_000,
  /** All queries of a request before it is handled: credential, resource and limits. */
  admissionMs: 2800,
} as const

/** A host that was not seen for this long counts as unreachable, in seconds. It reports every second. */
export const unreachableAfterSeconds = 5

/** Time for running requests when the API shuts down, in seconds. */
export const apiDrainSeconds = 10

/** Of these, calls of the AI gateway may go on for so long; then their callers are answered to try again, and reach another process. */
export const chatGraceSeconds = 7

/** Server-Sent Events (contract 4.15). */
export const eventStreams = {
  pingMs: 15_000,
  maxMs: 10 * 60_000,
  /** A reader that lags behind by more bytes is disconnected; it may reconnect. */
  bufferedBytes: MiB,
  /** So is one that reads nothing for this long although data waits for it. */
  stalledMs: 20_000,
  /** How often each stream is checked for this. */
  lookMs: 5000,
} as const

/** A client that reads nothing of an answer for this long is disconnected, in milliseconds. */
export const idleReaderMs = {
  /** An answer that is sent in pieces. */
  pieces: 30_000,
  /** A body of the blob store: disconnected at the second of two checks that are this far apart. */
  body: 15_000,
} as const

/** A crashed application is restarted automatically when it ran for longer than `ranSeconds`, at most once in `everyMinutes` (contract 5.11). */
export const autorestart = { ranSeconds: 60, everyMinutes: 60 } as const

/** Timeout of one probe of a health gate: a server may trickle bytes forever. */
export const gateProbeMs = 2000

/** Max starts of a release whose container disappears before it is healthy. */
export const gateStarts = 3

/** How long a process caches a valid credential, in milliseconds: a revoked one stops working within a second. */
export const credentialBelievedMs = 500

/** How long an answer waits for the address of a host name, in milliseconds. */
export const nameLookupMs = 500

/** A step at a worker or host that reports nothing for this long is taken for dead, and runs again elsewhere, in milliseconds. */
export const heartbeatMs = 15_000

/** Max time for which a program is frozen for its snapshot, in seconds. */
export const snapshotPauseSeconds = 20

/** A temporary file of the object store without a write for this long was left by a process that died, in milliseconds. */
export const staleUploadMs = 3_600_000

/** How often a row that is waited for is read again without a notification, in milliseconds: the delay after a lost one. */
export const notificationRereadMs = 3000
