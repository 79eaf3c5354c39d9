import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { KiB } from '../../lib/bytes.ts'
import type { ObjectStoreConfig } from '../../policy/config.ts'
import { beyond, exactly, segmentPath } from './meter.ts'
import {
  BodyMismatch,
  BodyNotFound,
  type BorrowedBody,
  type ObjectStore,
  type PutOptions,
  type StoredBody,
} from './port.ts'
import { receive } from './receive.ts'

export type S3Config = Extract<ObjectStoreConfig, { kind: 's3' }>

/** Deadline of calls without a body; an upload gets a second more for every MiB. */
const callMs = 15_000
/** Connections for calls without a body; one that waits longer than a connection may take fails. */
const callSockets = 50

/**
 * Bodies at any S3-compatible endpoint; creates the bucket when it is missing. Rejects when the endpoint does not answer, unless it
 * `mayBeUnreachable`. A body is spooled to `temporaryFolder` first: only then are its length and hashes known, and some endpoints
 * publish torn bodies that are sent without them.
 */
export async function s3Store(
  config: S3Config,
  temporaryFolder: string,
  mayBeUnreachable = false,
): Promise<ObjectStore> {
  const { endpoint, region, bucket, accessKeyId, secretAccessKey } = config
  const clientWith = (maxSockets: number) =>
    new S3Client({
      endpoint,
      region,
      forcePathStyle: true,
      credentials: { accessKeyId, secretAccessKey },
      maxAttempts: 2,
      // Newer checksums are sent in chunk frames, which some endpoints store as part of the body.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      requestHandler: {
        connectionTimeout: 3000,
        socketTimeout: 30_000,
        httpAgent: { maxSockets },
        httpsAgent: { maxSockets },
      },
    })
  const clients = { bodies: clientWith(Number.POSITIVE_INFINITY), calls: clientWith(callSockets) }
  const ready = ensureBucket(clients.calls, bucket)
  if (mayBeUnreachable) ready.catch(ignoreError('the store may be away now; each request reports it'))
  else await ready
  return new S3Store(clients, bucket, temporaryFolder)
}

/**
 * Two pools of connections. A body lasts as long as its reader or sender takes, so bodies have as many as they need: the connections of
 * clients and the upload slots of accounts bound their number. Calls without a body are short, and never wait for bodies.
 */
interface Clients {
  bodies: S3Client
  calls: S3Client
}

class S3Store implements ObjectStore {
  readonly #clients: Clients
  readonly #bucket: string
  readonly #temporaryFolder: string

  constructor(clients: Clients, bucket: string, temporaryFolder: string) {
    this.#clients = clients
    this.#bucket = bucket
    this.#temporaryFolder = temporaryFolder
  }

  async put(id: string, body: Readable, options: PutOptions = {}): Promise<StoredBody> {
    const key = this.#key(id)
    const spooled = await spool(this.#temporaryFolder, body, options)
    try {
      await this.#send(key, spooled, options.signal)
      await this.#verify(key, spooled)
    } catch (error) {
      // A half-written body must not be found; the original error is the one to report.
      await this.delete(id).catch(ignoreError('the error that led here is thrown'))
      throw error
    } finally {
      await spooled.file.close()
    }
    const { size, md5, sha256, crc32 } = spooled
    return { size, md5, sha256, crc32 }
  }

  async get(id: string, from = 0, to?: number, signal?: AbortSignal): Promise<Readable> {
    const Range = from === 0 && to === undefined ? undefined : `bytes=${from}-${to ?? ''}`
    const abort = new AbortController()
    const deadline = setTimeout(() => abort.abort(new Error('The object store did not answer in time.')), callMs)
    const abortSignal = signal ? AbortSignal.any([signal, abort.signal]) : abort.signal
    try {
      const answer = await this.#clients.bodies.send(new GetObjectCommand({ ...this.#key(id), Range }), { abortSignal })
      const body = answer.Body as Readable
      const range = answer.ContentRange && /^bytes (\d+)-(\d+)\/\d+$/.exec(answer.ContentRange)
      const first = range ? Number(range[1]) : 0
      const last = range ? Number(range[2]) : answer.ContentLength! - 1
      if (first !== from) throw new Error(`The object store answered from byte ${first} instead of ${from}.`)
      const stream = exactly(body, Math.min(last, to ?? last) - from + 1)
      return signal ? addAbortSignal(signal, stream) : stream
    } catch (error) {
      if (isMissing(error)) throw new BodyNotFound(`There is no body ${id}.`)
      throw statusOf(error) === 416 ? beyond(from, to) : error
    } finally {
      clearTimeout(deadline)
    }
  }

  async lend(...args: Parameters<ObjectStore['get']>): Promise<BorrowedBody> {
    const stream = await this.get(...args)
    // Until it is read, an endpoint that closes the connection must not crash this process.
    return stream.on('error', () => {})
  }

  async read(id: string, from: number, length: number): Promise<Buffer> {
    if (length === 0) return Buffer.alloc(0)
    return Buffer.concat(await (await this.get(id, from, from + length - 1)).toArray())
  }

  async head(id: string): Promise<{ size: number } | null> {
    const head = await this.#head(this.#key(id))
    return head && { size: head.size }
  }

  async delete(id: string): Promise<void> {
    await this.#clients.calls
      .send(new DeleteObjectCommand(this.#key(id)), { abortSignal: AbortSignal.timeout(callMs) })
      .catch(unlessMissing)
  }

  async open(id: string): Promise<FileHandle> {
    const { file } = await spool(this.#temporaryFolder, await this.get(id))
    return file
  }

  #key(id: string): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: segmentPath(id) }
  }

  async #send(key: { Bucket: string; Key: string }, spooled: Spooled, signal?: AbortSignal): Promise<void> {
    const { file, size, md5, sha256 } = spooled
    const abortSignal = deadlineSignal(callMs + Math.ceil(size / KiB), ...(signal ? [signal] : []))
    for (let attempt = 1; ; attempt++) {
      const Body =
        size === 0 ? Buffer.alloc(0) : file.createReadStream({ start: 0, autoClose: false, highWaterMark: 256 * KiB })
      const command = new PutObjectCommand({
        ...key,
        Body,
        ContentLength: size,
        ContentMD5: Buffer.from(md5, 'hex').toString('base64'),
      })
      // Signs the body's hash, which the client cannot know for a stream.
      command.middlewareStack.add(
        next => args => {
          ;(args.request as { headers: Record<string, string> }).headers['x-amz-content-sha256'] = sha256
          return next(args)
        },
        { step: 'build', name: 'signedPayload' },
      )
      try {
        await this.#clients.bodies.send(command, { abortSignal })
        return
      } catch (error) {
        if (attempt === 2 || abortSignal.aborted || (statusOf(error) ?? 500) < 500) throw error
      }
    }
  }

  /** An endpoint's 200 is not trusted: what it reports of the object now must match what was sent. */
  async #verify(key: { Bucket: string; Key: string }, { size, md5 }: StoredBody): Promise<void> {
    const head = await this.#head(key)
    const etag = head?.etag?.replaceAll('"', '')
    const wrongHash = etag !== undefined && /^[0-9a-f]{32}$/.test(etag) && etag !== md5
    if (head?.size !== size || wrongHash)
      throw new BodyMismatch('The object store has stored other bytes than it was sent.')
  }

  async #head(key: { Bucket: string; Key: string }): Promise<{ size: number; etag?: string } | null> {
    const answer = await this.#clients.calls
      .send(new HeadObjectCommand(key), { abortSignal: AbortSignal.timeout(callMs) })
      .catch(unlessMissing)
    return answer && { size: answer.ContentLength!, etag: answer.ETag }
  }
}

async function ensureBucket(client: S3Client, Bucket: string): Promise<void> {
  const abortSignal = AbortSignal.timeout(callMs)
  const bucket = await client.send(new HeadBucketCommand({ Bucket }), { abortSignal }).catch(unlessMissing)
  if (!bucket) await client.send(new CreateBucketCommand({ Bucket }), { abortSignal })
}

function statusOf(error: unknown): number | undefined {
  return (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode
}

function isMissing(error: unknown): boolean {
  return statusOf(error) === 404
}

function unlessMissing(error: unknown): null {
  if (isMissing(error)) return null
  throw error
}

type Spooled = StoredBody & { file: FileHandle }

/**
 * Writes a body to an unlinked temporary file, so that nothing is left when this process dies. The caller closes the file.
 * Rejects as `ObjectStore.put` does.
 */
function spool(folder: string, body: Readable, options: PutOptions = {}): Promise<Spooled> {
  // Sent along, so that the store refuses what did not arrive whole.
  const { withoutMd5: _, ...all } = options
  return receive(openUnlinked(folder), body, all)
}

async function openUnlinked(folder: string): Promise<FileHandle> {
  const path = join(folder, `berth-${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  await rm(path)
  return file
}
