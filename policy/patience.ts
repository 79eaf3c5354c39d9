import { MiB } from '../lib/bytes.ts'

/** How long requests wait for an operation, in milliseconds (contract 1.13). Existing clients wait up to 120 s. */
export const heldCall = {
  /** A waiting operation is claimed within this, or never runs. */
  claimMs: 30_000,
  /** A running one is waited for this long in all; what is left of it by then begins nothing more (policy/apps/command-times.ts). */
  holdMs: 95_000,
  /** What goes on without its caller, claimed or not, is waited for this long. */
  backgroundMs: 90_000,
} as const

/** As `heldCall`; tests wait for less. */
export type HeldCall = Readonly<Record<keyof typeof heldCall, number>>

/** How long Postgres is waited for, in milliseconds; a request that cannot be served without it is refused within 3 s. */
export const databasePatience = {
  /** Until a connection of the pool, or a new one, is there. */
  connectionMs: 2000,
  /** A statement is cancelled by the server after this; one of a request earlier. */
  statementMs: 5000,
  requestStatementMs: 2300,
  /** A server that was stopped cancels nothing: nobody waits for longer after that. */
  answerMs: 500,
  /** A connection is used for so long; the next one finds what the database belongs to. */
  connectionLifeMs: 60_000,
  /** What a request asks before it is acted upon, in all: who calls, about what, and whether limits let it. */
  admissionMs: 2800,
} as const

/** A host that was not seen for so long counts as unreachable, in seconds. It is seen every second. */
export const unreachableAfterSeconds = 5

/** Requests that are under way when the API is asked to end have so long, in seconds. */
export const apiDrainSeconds = 10

/** Server-Sent Events (contract 4.15). */
export const eventStreams = {
  pingMs: 15_000,
  maxMs: 10 * 60_000,
  /** A reader that lags behind by more bytes is cut; it may come back. */
  bufferedBytes: MiB,
  /** So is one that has taken nothing for so long although something waits for it. */
  stalledMs: 20_000,
  /** How often each stream is looked at for this. */
  lookMs: 5000,
} as const

/** Who takes nothing of an answer for so long is cut, in milliseconds. */
export const idleReaderMs = {
  /** An answer that is sent in pieces. */
  pieces: 30_000,
  /** A body of the blob store: cut at the second of two looks that are so far apart. */
  body: 15_000,
} as const

/** An application that crashed is started again by itself when it ran for longer, and once in so many minutes at most (contract 5.11). */
export const autorestart = { ranSeconds: 60, everyMinutes: 60 } as const

/** One probe of a health gate that has no answer after this is over: a server may trickle for ever. */
export const gateProbeMs = 2000

/** A release whose container is gone before it was found healthy is started so often in all. */
export const gateStarts = 3

/** A credential that was found live is believed for so long in one process, in milliseconds: a revoked one is dead within a second. */
export const credentialBelievedMs = 500

/** A program stands still for its snapshot for so long at most, in seconds. */
export const snapshotPauseSeconds = 20

/** A temporary file of the object store that nobody has written to for so long was left by a process that died, in milliseconds. */
export const staleUploadMs = 3_600_000

/** Who waits for a row to change looks at it so often without being told, in milliseconds: what a lost notification costs. */
export const newsRereadMs = 3000
