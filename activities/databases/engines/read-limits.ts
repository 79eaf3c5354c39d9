import type { Duplex } from 'node:stream'
import { MiB } from '../../../lib/bytes.ts'
import { comparisonLimits } from '../../../policy/databases/database-steps.ts'
import { DumpPrevented } from '../contents.ts'
import type { LocalEngine } from '../port.ts'

/** Bytes that come from an engine and are in memory together. */
export class ReadLimit {
  bytes = 0
  readonly #maxBytes: number
  readonly #words: string
  #isLifted = false

  constructor(maxBytes: number, words: string) {
    this.#maxBytes = maxBytes
    this.#words = `${words} more than ${maxBytes / MiB} MB.`
  }

  /** Throws DumpPrevented once they are too many. */
  add(bytes: number): void {
    if (this.#isLifted) return
    this.bytes += bytes
    if (this.bytes > this.#maxBytes) throw new DumpPrevented(this.#words)
  }

  /** Suspends the limit until the returned function is called: what passes meanwhile is not stored. */
  lift(): () => void {
    this.#isLifted = true
    return () => {
      this.#isLifted = false
    }
  }

  /** Adds what a connection brings, and ends it, with DumpPrevented, instead of throwing. */
  watch(connection: Duplex): void {
    connection.on('data', (piece: Buffer) => {
      try {
        this.add(piece.length)
      } catch (error) {
        connection.destroy(error as Error)
      }
    })
  }
}

/** Of all that one conversation reads of what a database defines. */
export const limitOfDefinitions = (maxBytes: number): ReadLimit =>
  new ReadLimit(maxBytes, 'The database cannot be compared: what it defines has')

export const maxDefinitions = ({ isCopy = false }: Pick<LocalEngine, 'isCopy'>): number =>
  isCopy ? comparisonLimits.copyBytes : comparisonLimits.definitionBytes

/** Of one reply that is in memory as a whole. */
export const limitOfReply = (maxBytes: number): ReadLimit =>
  new ReadLimit(maxBytes, 'The database cannot be compared: what it answers at once has')

/** Throws DumpPrevented for a list that comes as one reply and is too long for that. */
export function demandFew(what: string, count: unknown, max: number): void {
  if (Number(count ?? 0) > max)
    throw new DumpPrevented(`The database cannot be compared: it has more than ${max} ${what}.`)
}
