import { BSON, type Db, type Document, type MongoClient } from 'mongodb'
import type { ReadLimit } from '../read-limits.ts'

/** Values come as the types that they have in BSON, and not as those of the language. */
const exact = { promoteValues: false, promoteLongs: false, promoteBuffers: false, bsonRegExp: true } as const

export interface Collection {
  database: string
  name: string
  /** `collection`, `view` or `timeseries`. */
  type: string
  options: Document
  indexes: Document[]
  /** Of limited size: its documents are in the order of their insertion, and the oldest go. */
  capped: boolean
  /** The bytes of its options, and of each of its indexes, in a fixed order. */
  bytes: Buffer[]
}

const ownDatabases = new Set(['local', 'config'])

/** Of a server that is used by others too, the user's: not what the server keeps in `admin`, nor what it made by itself. */
const isOwn = (database: string, name: string): boolean =>
  !name.startsWith('system.') || (name === 'system.js' && database !== 'admin')

/**
 * All collections and views of the customer, without those that are empty of meaning to it: the server's own. Rejects with DumpPrevented for
 * more than the limit.
 */
export async function collectionsOf(client: MongoClient, limit: ReadLimit): Promise<Collection[]> {
  const { databases } = await client.db('admin').command({ listDatabases: 1, nameOnly: true })
  const collections: Collection[] = []
  for (const { name: database } of databases as { name: string }[]) {
    if (ownDatabases.has(database)) continue
    const db = client.db(database)
    for (const bytes of await rawList(db, { listCollections: 1 }, limit)) {
      const { name, type, options } = BSON.deserialize(bytes, exact) as Document
      if (!isOwn(database, name)) continue
      const indexes = type === 'view' ? [] : await rawList(db, { listIndexes: name }, limit)
      collections.push({
        ...{ database, name, type, options, capped: Boolean(options.capped?.valueOf()) },
        indexes: indexes.map(index => BSON.deserialize(index, exact)),
        bytes: [fieldOf(bytes, 'options'), ...indexes.sort(Buffer.compare)],
      })
    }
  }
  return collections
}

/** All documents of a command that lists, in their bytes. */
async function rawList(db: Db, command: Document, limit: ReadLimit): Promise<Buffer[]> {
  const documents: Buffer[] = []
  for await (const document of db.runCursorCommand({ ...command, cursor: {} }, { raw: true } as object)) {
    const bytes = Buffer.from(document as Uint8Array)
    limit.add(bytes.length)
    documents.push(bytes)
  }
  return documents
}

/** The bytes of a document's field. */
function fieldOf(document: Buffer, name: string): Buffer {
  for (const [, nameAt, nameBytes, at, bytes] of BSON.onDemand.parseToElements(document))
    if (document.toString('utf8', nameAt, nameAt + nameBytes) === name) return document.subarray(at, at + bytes)
  return Buffer.alloc(0)
}
