import { createHash } from 'node:crypto'
import { IncomingMessage, type ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { Exchange } from '../../../api/http/exchange.ts'
import { copyObject } from '../../../api/s3/objects/copy-object.ts'
import { deleteObject } from '../../../api/s3/objects/delete-object.ts'
import { deleteObjectTagging, putObjectTagging } from '../../../api/s3/objects/object-tagging.ts'
import { reservingFor } from '../../../api/s3/objects/write-object.ts'
import type { Operation, S3Call } from '../../../api/s3/operation.ts'
import { signedRequest } from '../../../api/s3/signature/signed-request.ts'
import { completeMultipartUpload } from '../../../api/s3/uploads/complete-upload.ts'
import { xmlResult } from '../../../api/s3/xml.ts'
import type { Services } from '../../../api/services.ts'
import { type Db, transaction } from '../../../db/database.ts'
import { putObject } from '../../../db/objects/object-puts.ts'
import type { NewObjectPart } from '../../../db/objects/object-segments.ts'
import { type NewObject, openObject, type StoredObject, type WriteEnding } from '../../../db/objects/objects.ts'
import type { BodyFacts } from '../../../db/objects/segments.ts'
import type { StorageQuota } from '../../../db/objects/storage-quota.ts'
import { storeUploadPart } from '../../../db/objects/uploads/upload-parts.ts'
import { GiB } from '../../../lib/bytes.ts'
import type { Bucket, ObjectName } from '../../../policy/objects/object-names.ts'
import { writeConditions } from '../../../policy/s3/s3-conditions.ts'
import { partTag, storageLimit } from './object-bytes.ts'
import type { Act, Condition } from './object-model.ts'

type Of<Kind extends Act['kind']> = Extract<Act, { kind: Kind }>

/** One process of the platform, as far as objects go. */
export interface ObjectProcess {
  db: Db
  quota: StorageQuota
}

/** A name of the model. */
export function nameIn(ownerId: string, text: string): ObjectName {
  const [bucket, key] = text.split(' ') as [Bucket, string]
  return { ownerId, bucket, key }
}

/** The acts of S3 on objects of one account: done by its operations, except where these would draw the ids of segments themselves. */
export class S3Acts {
  readonly #ownerId: string

  constructor(ownerId: string) {
    this.#ownerId = ownerId
  }

  async copy({ from, to, header, tag, ...condition }: Of<'s3copy'>, process: ObjectProcess): Promise<string> {
    const source = nameIn(this.#ownerId, from)
    await this.#ask(copyObject, to, process, {
      headers: {
        ...headersOf(condition),
        'x-amz-copy-source': `/${source.bucket}/${source.key}`,
        ...(header !== null && { 'x-amz-metadata-directive': 'REPLACE', 'cache-control': header }),
        ...(tag !== null && { 'x-amz-tagging-directive': 'REPLACE', 'x-amz-tagging': `n=${tag}` }),
      },
    })
    return 'copied'
  }

  async delete({ name, match }: Of<'s3delete'>, process: ObjectProcess): Promise<string> {
    await this.#ask(deleteObject, name, process, { headers: headersOf({ overwrite: true, match }) })
    return 'done'
  }

  async tag({ name, tag }: Of<'tag'>, process: ObjectProcess): Promise<string> {
    const document = xmlResult('Tagging', { TagSet: { Tag: { Key: 'n', Value: tag } } })
    await this.#ask(tag === null ? deleteObjectTagging : putObjectTagging, name, process, { document })
    return 'changed'
  }

  async complete({ upload, name, listed, ...condition }: Of<'s3complete'>, process: ObjectProcess): Promise<string> {
    const parts = listed.map(({ part, segment }) => ({ PartNumber: part, ETag: partTag(segment) }))
    const { body } = await this.#ask(completeMultipartUpload, `${name}?uploadId=${upload}`, process, {
      headers: headersOf(condition),
      document: xmlResult('CompleteMultipartUpload', { Part: parts }),
    })
    return `completed ${/<ETag>&quot;(.+)&quot;<\/ETag>/.exec(String(body))?.[1]}`
  }

  /** Stores a body that has arrived, as every operation does that receives one. */
  put(
    condition: Condition,
    { object, part, ending }: { object: NewObject; part: NewObjectPart & { body: BodyFacts }; ending: WriteEnding },
    process: ObjectProcess,
  ): Promise<StoredObject> {
    const conditions = conditionsOf(condition)
    return reservingFor(part.body.size, object, this.#caller, process as unknown as Services, charge =>
      putObject(process.db, object, part, { ...conditions, charge, ending }),
    )
  }

  /** Makes the first segment of an object a part, as UploadPartCopy does with its range. */
  async share({ upload: uploadId, part, from }: Of<'share'>, { db }: ObjectProcess): Promise<string> {
    const first = (await openObject(db, nameIn(this.#ownerId, from)))?.parts[0]
    if (!first) return 'none'
    const body = { size: first.length, md5: partTag(first.segmentId), sha256: '' }
    const shared = { uploadId, part, segmentId: first.segmentId, body, shared: true, limit: storageLimit }
    return transaction(db, trx => storeUploadPart(trx, shared))
  }

  get #caller(): S3Call['caller'] {
    const plan = { blobGb: storageLimit / GiB, s3RequestsPer10s: 1 }
    const rights = { scopes: null, resources: null, prefixes: null }
    return { user: { id: this.#ownerId }, plan, planName: 'hobby-1', ...rights } as unknown as S3Call['caller']
  }

  async #ask(
    operation: Operation,
    text: string,
    process: ObjectProcess,
    { headers = {}, document }: { headers?: Record<string, string>; document?: string },
  ) {
    const [name = '', query = ''] = text.split('?')
    const { bucket, key } = nameIn(this.#ownerId, name)
    const body = Buffer.from(document ?? '')
    const rawHeaders = Object.entries({ ...headers, 'content-length': String(body.length) }).flat()
    const request = signedRequest({ method: operation.method, target: `/${bucket}/${key}?${query}`, rawHeaders })
    const arrived = new IncomingMessage(new Socket())
    arrived.complete = true
    for (const piece of [body, null]) arrived.push(piece)
    const exchange = new Exchange(arrived, {} as ServerResponse, '')
    const caller = this.#caller
    const call = {
      request,
      caller,
      authorization: { payload: createHash('sha256').update(body).digest('hex') },
      exchange,
      bucket,
      stored: bucket,
      key,
    }
    const config = { urls: { s3: '' }, blob: { s3: { extraBuckets: false } } }
    const services = {
      ...process,
      config,
      limiter: { admit: async () => {} },
      findS3Credential: async () => ({ caller }),
    }
    try {
      return await operation.handle(call as unknown as S3Call, services as unknown as Services)
    } finally {
      exchange.release()
    }
  }
}

const headersOf = ({ overwrite, match }: Condition): Record<string, string> => ({
  ...(!overwrite && { 'if-none-match': '*' }),
  ...(match !== undefined && { 'if-match': match === '*' ? match : `"${match}"` }),
})

function conditionsOf(condition: Condition) {
  const headers = headersOf(condition)
  return writeConditions(name => (name in headers ? [headers[name]!] : []))
}
