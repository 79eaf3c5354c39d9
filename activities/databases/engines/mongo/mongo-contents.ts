import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import { BSON, type ClientSession, type Db, type Document, type MongoClient, MongoServerError } from 'mongodb'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { databaseSeconds } from '../../../../policy/databases/database-steps.ts'
import { type DatabaseContents, DumpCorrupt } from '../../contents.ts'
import { type DumpFile, type DumpReader, type DumpWriter, readDump, writeDump } from '../../dump-files.ts'
import type { LocalEngine } from '../../port.ts'
import { limitOfDefinitions, maxDefinitions } from '../read-limits.ts'
import { asPlatform } from './mongo.ts'
import { type Collection, collectionsOf } from './mongo-collections.ts'
import { batchDocuments, DocumentSum, readDocuments } from './mongo-documents.ts'

const { copy: copySeconds } = databaseSeconds
/** For how long MongoDB keeps its past by itself. */
const usualHistorySeconds = 300
const batchBytes = 8 * MiB
const minDocumentBytes = 5
/** The server's limit, and what it allows for itself. */
const maxDocumentBytes = 16 * MiB + 16 * 1024
const metadata = '.metadata.json'

/**
 * Databases as mongodump writes them, without users: customers cannot make any. Documents pass in their bytes, because values of the
 * language cannot hold all of them.
 */
export const mongoContents: DatabaseContents = {
  async dump(engine, job) {
    return writeDump(job, engine.signal, writer =>
      reading(engine, (client, session) => readContents(client, session, maxDefinitions(engine), writer)),
    )
  },

  async loadBeforeStart() {},

  async load(engine, job) {
    await readDump(job.folder, engine.signal, async reader => {
      const collections = reader.paths.filter(path => path.endsWith(metadata)).map(path => collectionIn(reader, path))
      const failed = await asPlatform(engine, { seconds: copySeconds }, ({ client }) =>
        loadAll(client, reader, collections).catch(refusedByServer),
      )
      if (failed) throw failed
    })
  },

  digest: engine => reading(engine, (client, session) => readContents(client, session, maxDefinitions(engine), null)),
}

/**
 * Reads as one moment, but for what capped collections have when it comes to them. Transactions of MongoDB end after a minute; its
 * snapshots are retained for five, or as long as is configured. The stand-in has both, but snapshots in name only.
 */
async function reading<T>(
  engine: LocalEngine,
  work: (client: MongoClient, session: ClientSession) => Promise<T>,
): Promise<T> {
  const { standIn } = engine.traits
  const keep = async (admin: Db, seconds: number): Promise<void> => {
    if (!standIn) await admin.command({ setParameter: 1, minSnapshotHistoryWindowInSeconds: seconds })
  }
  try {
    return await asPlatform(engine, { seconds: copySeconds }, async admin => {
      await keep(admin, copySeconds)
      return admin.client.withSession({ snapshot: !standIn }, async session => {
        if (standIn) session.startTransaction({ readConcern: { level: 'snapshot' } })
        return work(admin.client, session)
      })
    })
  } finally {
    // Also when the conversation was ended, by a signal for instance.
    if (!standIn)
      await asPlatform({ ...engine, signal: undefined }, {}, admin => keep(admin, usualHistorySeconds)).catch(
        ignoreError('its next start, or the end of the next snapshot, resets it'),
      )
  }
}

/** Resolves to the digest, SHA-256 in hex. */
async function readContents(
  client: MongoClient,
  session: ClientSession,
  maxBytes: number,
  writer: DumpWriter | null,
): Promise<string> {
  const lines: string[] = []
  for (const collection of await collectionsOf(client, limitOfDefinitions(maxBytes))) {
    const { database, name, type, bytes } = collection
    const sum = new DocumentSum(collection.capped)
    const file = fileOf(database, name)
    if (writer) await writer.write(`${file}${metadata}`, each => each.add(metadataOf(collection)))
    const read = (into: DumpFile | null) => readDocuments(client, collection, session, sum, into)
    if (type !== 'view') await (writer ? writer.write(`${file}.bson`, read) : read(null))
    lines.push(JSON.stringify([database, name, type, bytes.map(each => each.toString('hex')), sum.text()]))
  }
  return createHash('sha256').update(lines.sort().join('\n')).digest('hex')
}

const metadataOf = ({ name, type, options, indexes }: Collection): string =>
  BSON.EJSON.stringify({ options, indexes, collectionName: name, type }, { relaxed: false })

/** Of a collection, without its ending, as mongodump names it. */
function fileOf(database: string, name: string): string {
  const escaped = escapedName(name)
  const long = escaped.length > maxNameBytes
  const hash = () => createHash('sha1').update(name).digest('base64url')
  return `${escapedName(database).replaceAll('.', '%2E')}/${long ? `${escaped.slice(0, 208)}%24${hash()}` : escaped}`
}

const maxNameBytes = 238

const escapedName = (name: string): string =>
  encodeURIComponent(name)
    .replace(/[!'()*]/g, character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/%(?:24|26|2B|3D|3A|40)/g, decodeURIComponent)

interface DumpedCollection {
  database: string
  name: string
  type: string
  options: Document
  indexes: Document[]
  /** Null for a view. */
  documents: string | null
}

function collectionIn(reader: DumpReader, path: string): DumpedCollection {
  const stem = path.slice(0, -metadata.length)
  try {
    const { collectionName, type, options, indexes } = BSON.EJSON.parse(reader.text(path), {
      relaxed: false,
    }) as Document
    const database = decodeURIComponent(stem.slice(0, stem.indexOf('/')))
    return {
      database,
      name: collectionName,
      type,
      options,
      indexes,
      documents: type === 'view' ? null : `${stem}.bson`,
    }
  } catch (cause) {
    throw new DumpCorrupt(`${path} in the dump is no description of a collection.`, { cause })
  }
}

async function loadAll(client: MongoClient, reader: DumpReader, collections: DumpedCollection[]): Promise<null> {
  for (const { database, name, options, documents, indexes } of collections) {
    const db = client.db(database)
    if ((await db.listCollections({ name }, { nameOnly: true }).toArray()).length > 0) await db.command({ drop: name })
    await db.command({ create: name, ...options })
    if (documents) await insertAll(db, name, reader, documents)
    // Those that come with the collection are made with it.
    const others = indexes.filter(index => index.name.valueOf() !== '_id_' && !index.clustered)
    if (others.length > 0)
      await db.command({ createIndexes: name, indexes: others.map(({ ns: _, ...index }) => index) })
  }
  return null
}

/** Codes of a server that lacks room or time, or is being ended, and not of a command. */
const circumstances = new Set([24, 50, 91, 189, 262, 10_107, 11_600, 11_602, 13_436, 14_031])

/** Resolves to what is wrong with the dump; rejects with an error that has another cause. */
async function refusedByServer(error: unknown): Promise<DumpCorrupt> {
  if (error instanceof DumpCorrupt) return error
  if (!(error instanceof MongoServerError) || circumstances.has(Number(error.code))) throw error
  return new DumpCorrupt(`MongoDB refuses a command of the dump with error ${error.code}.`, { cause: error })
}

/** A list of documents in their bytes, inside a command. The driver has it for itself, and offers nothing else that takes bytes. */
const { DocumentSequence } = createRequire(import.meta.url)('mongodb/lib/cmap/commands.js') as {
  DocumentSequence: new (field: string) => { push(document: object, bytes: Uint8Array): number }
}

async function insertAll(db: Db, name: string, reader: DumpReader, path: string): Promise<void> {
  let batch: Buffer[] = []
  let bytes = 0
  const insert = async () => {
    const documents = new DocumentSequence('documents')
    for (const document of batch) documents.push({}, document)
    const reply = await db.command({ insert: name, documents, ordered: true, bypassDocumentValidation: true })
    if (reply.n !== batch.length) throw new DumpCorrupt(`MongoDB does not accept a document of ${path}.`)
    batch = []
    bytes = 0
  }
  for await (const document of documentsIn(reader, path)) {
    if (batch.length > 0 && (bytes + document.length > batchBytes || batch.length === batchDocuments)) await insert()
    batch.push(document)
    bytes += document.length
  }
  if (batch.length > 0) await insert()
}

async function* documentsIn(reader: DumpReader, path: string): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const piece of reader.pieces(path)) {
    rest = rest.length === 0 ? piece : Buffer.concat([rest, piece])
    while (rest.length >= 4) {
      const bytes = rest.readInt32LE(0)
      if (bytes < minDocumentBytes || bytes > maxDocumentBytes) throw new DumpCorrupt(`${path} in the dump is damaged.`)
      if (rest.length < bytes) break
      yield rest.subarray(0, bytes)
      rest = rest.subarray(bytes)
    }
  }
  if (rest.length > 0) throw new DumpCorrupt(`${path} in the dump is incomplete.`)
}
