import { createHash } from 'node:crypto'
import { type ClientSession, type MongoClient, MongoServerError, ReadConcern } from 'mongodb'
import { DumpPrevented } from '../../contents.ts'
import type { DumpFile } from '../../dump-files.ts'
import type { Collection } from './mongo-collections.ts'

/** Documents that are read, or written, per command. */
export const batchDocuments = 1000
/** Code of the server for a reader that was overtaken. */
const cappedPositionLost = 136

/**
 * Adds the documents of a collection to its sum, and to a file. Rejects with DumpPrevented for a capped collection whose oldest documents go
 * before they are read.
 */
export async function readDocuments(
  client: MongoClient,
  { database, name, capped }: Collection,
  session: ClientSession,
  sum: DocumentSum,
  file: DumpFile | null,
): Promise<void> {
  // MongoDB reads no capped collection as of an earlier moment.
  const moment = capped && session.snapshotEnabled ? { readConcern: new ReadConcern('majority') } : { session }
  const options = { raw: true, batchSize: batchDocuments, timeout: false, ...moment }
  try {
    for await (const document of client.db(database).collection(name).find({}, options)) {
      const bytes = document as unknown as Uint8Array
      sum.add(bytes)
      file?.add(bytes)
    }
  } catch (error) {
    if (!(error instanceof MongoServerError && error.code === cappedPositionLost)) throw error
    throw new DumpPrevented(`The capped collection ${database}.${name} is overwritten faster than it can be read.`)
  }
}

/** Of documents in no order, of which each is there as often as it was added; or in theirs. */
export class DocumentSum {
  #count = 0
  #sum = 0n
  #chain = ''
  readonly #ordered: boolean

  constructor(ordered: boolean) {
    this.#ordered = ordered
  }

  add(document: Uint8Array): void {
    const digest = createHash('sha256').update(this.#chain).update(document).digest('hex')
    this.#count++
    if (this.#ordered) this.#chain = digest
    else this.#sum = BigInt.asUintN(256, this.#sum + BigInt(`0x${digest}`))
  }

  text(): string {
    return `${this.#count} ${this.#ordered ? this.#chain : this.#sum.toString(16)}`
  }
}
