import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { Busboy, type BusboyInstance } from '@fastify/busboy'
import { z } from 'zod'
import type { StoredBody } from '../../activities/objects/port.ts'
import * as segments from '../../db/objects/segments.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { MiB } from '../../lib/bytes.ts'
import { CodedError, type ErrorCode } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { requestCaps } from '../../policy/request-caps.ts'
import { inviteBody } from '../http/body.ts'
import type { Exchange } from '../http/exchange.ts'
import { watchPace } from '../http/pace.ts'
import type { Services } from '../services.ts'
import { boundForm, type FormBounds } from './form-bounds.ts'
import { factsOf, smallBody } from './small-bodies.ts'
import { type Cancelling, StoreTooSlow, withinStoreTime } from './store-deadline.ts'

/** A body that has arrived and that nothing refers to yet. */
export interface Arrived extends StoredBody {
  segmentId: string
  /** The bytes of a small body, which will be stored in its row and nowhere before. */
  bytes?: Buffer
}

export interface Upload extends Arrived {
  fileName: string
}

/** A multipart upload of one file, for an endpoint's `upload`. Over 100 MB: FILE_TOO_LARGE. */
export const oneFile = {
  mediaType: 'multipart/form-data',
  parts: z.object({ file: z.string().meta({ openapi: { type: 'string', format: 'binary' } }) }),
  maxBytes: requestCaps.fileBytes + MiB,
  tooLarge: 'FILE_TOO_LARGE',
} as const

/** Codes that `receiveFile` throws, in addition to those in its `Reception`. */
export const uploadErrors = [
  'INVALID_FILE',
  'INVALID_FILENAME',
  'UPLOAD_ABORTED',
  'FILE_TOO_LARGE',
  'INVALID_CONTENT_TYPE',
] as const satisfies readonly ErrorCode[]

export interface Reception extends Pick<BodyRules, 'ownerId' | 'unstored' | 'smallBesideRow'> {
  /** Checks the file's name and content type before a byte of it is read; refuses it by returning false or throwing a code. */
  accepts(name: string, mediaType: string): boolean
  /** The codes for a form without a file, and for one that ends before its last boundary; default: INVALID_FILE. */
  empty?: ErrorCode
  cut?: ErrorCode
  /** Of the file; default: 100 MB. */
  maxBytes?: number
}

export const isArchive = (fileName: string): boolean => /\.zip$/i.test(fileName)

/**
 * Streams the file of a multipart body into the object store; only a small one is held in memory, and a refusal leaves nothing behind.
 * The caller attaches or discards the segment.
 */
export async function receiveFile(exchange: Exchange, services: Services, reception: Reception): Promise<Upload> {
  const { request, response } = exchange
  const form = formOf(request)
  inviteBody(request, response)
  const cancel = new Cancel()
  let body: Readable | undefined
  let upload: Promise<Upload> | undefined
  let stopWatch = () => {}
  let bounds: FormBounds | undefined
  try {
    await new Promise<void>((resolve, reject) => {
      const fail = (code: ErrorCode) => reject(new CodedError(code))
      const lost = () => request.complete || fail('UPLOAD_ABORTED')
      form.on('file', (field, file, name, _encoding, mediaType) => {
        // Without a listener, the error of a stream that breaks off would be uncaught.
        file.on('error', () => {})
        if (field !== 'file' || upload) return file.resume()
        try {
          if (!reception.accepts(name ?? '', mediaType)) return fail('INVALID_FILENAME')
        } catch (refusal) {
          return reject(refusal)
        }
        body = file
        bounds?.file(file)
        upload = storeUpload(file, name, services, reception, cancel)
        upload.catch(reject)
      })
      form.on('error', error => {
        const { cut = 'INVALID_FILE' } = reception
        fail(!request.complete ? 'UPLOAD_ABORTED' : isCut(error) ? cut : 'INVALID_FILE')
      })
      form.on('finish', resolve)
      for (const limit of ['partsLimit', 'filesLimit', 'fieldsLimit'] as const)
        form.on(limit, () => fail('INVALID_FILE'))
      request.on('close', lost).on('error', lost)
      stopWatch = watchPace(request, () => fail('UPLOAD_ABORTED'))
      bounds = boundForm(request, { tooMuch: () => fail('FILE_TOO_LARGE'), tooLong: () => fail('UPLOAD_ABORTED') })
      request.pipe(form)
    })
    if (!upload)
      throw new CodedError(reception.empty ?? 'INVALID_FILE', 'The form has no part named "file" with a file name.')
    return await upload
  } catch (error) {
    request.unpipe(form)
    cancel.abort()
    body?.destroy()
    form.destroy()
    await upload?.then(stored => discard(services, stored)).catch(ignoreError('the error that led here is thrown'))
    throw error
  } finally {
    stopWatch()
    bounds?.end()
  }
}

/** The parser's error for a body that arrived completely but has no last boundary. */
const isCut = (error: unknown): boolean => /unexpected end/i.test((error as Error).message)

/** Removes an upload that nothing refers to. If that fails, the sweep removes it later. */
export async function discard(
  { db, store, log }: Services,
  { segmentId, bytes }: Pick<Arrived, 'segmentId' | 'bytes'>,
): Promise<void> {
  if (bytes) return
  try {
    // A body that arrived after the sweep had removed its row would stay for ever.
    if (!(await segments.markSegmentForDeletion(db, segmentId)) && (await segments.isSegmentKnown(db, segmentId)))
      return
    await store.delete(segmentId)
    await segments.deleteSegmentRow(db, segmentId)
  } catch (err) {
    log.warn({ err, segmentId }, 'a refused upload is left to the sweep')
  }
}

function formOf(request: IncomingMessage): BusboyInstance {
  const type = request.headers['content-type']
  if (!type || !/^multipart\/form-data\s*;/i.test(type))
    throw new CodedError('INVALID_CONTENT_TYPE', 'The body must be multipart/form-data.')
  try {
    return new Busboy({
      headers: { ...request.headers, 'content-type': type },
      limits: {
        fileSize: requestCaps.fileBytes + 1,
        files: 5,
        fields: 20,
        fieldSize: MiB / 16,
        parts: 25,
        headerPairs: 100,
      },
    })
  } catch {
    throw new CodedError('INVALID_CONTENT_TYPE', 'The multipart body has no boundary.')
  }
}

export interface BodyRules {
  /** Id of the account whose body it is. */
  ownerId: string
  maxBytes: number
  /** The code for a body that turns out to be larger. */
  tooLarge: ErrorCode
  /** The code when the object store could not store it. */
  unstored: ErrorCode
  /** True: a small body is stored in the database, not in the object store. */
  smallBesideRow?: true
  /** Whether the body itself was found to be wrong, which is no failure of the store. */
  isRefused?(): boolean
}

/** The allocation of a slow body is renewed well before the sweep would treat it as abandoned. */
const renewMs = 10 * 60_000

/** An AbortController that is created on first use: it costs more than the rest of a small upload, which never needs it. */
class Cancel implements Cancelling {
  #controller: AbortController | undefined
  #aborted = false

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#aborted) this.#controller.abort()
    return this.#controller.signal
  }

  abort(): void {
    this.#aborted = true
    this.#controller?.abort()
  }
}

/**
 * Puts a body into the object store, or returns the bytes of a small one for its row. A caller that cancels must destroy the body too. The
 * caller attaches or discards the segment. Throws `tooLarge`, UPLOAD_ABORTED, and `unstored`.
 */
export async function storeBody(
  body: Readable,
  services: Services,
  { ownerId, maxBytes, tooLarge, unstored, smallBesideRow, isRefused }: BodyRules,
  cancel: Cancelling,
): Promise<Arrived> {
  let segmentId: string | undefined
  let alive: NodeJS.Timeout | undefined
  // Until the store listens, and after it has refused the body, one that breaks off must not crash this process.
  body.on('error', () => {})
  try {
    const bytes = smallBesideRow && (await smallBody(body))
    if (bytes && bytes.length > maxBytes) throw new CodedError(tooLarge)
    if (bytes) return { segmentId: newId(), bytes, ...factsOf(bytes) }
    const id = await services.segmentIds.take()
    segmentId = id
    alive = setInterval(
      () => segments.renewAllocation(services.db, id).catch(ignoreError('the next interval tries again')),
      renewMs,
    )
    const storing = services.store.put(id, body, { maxBytes, ownerId, signal: cancel.signal })
    return { segmentId, ...(await withinStoreTime(storing, body, cancel)) }
  } catch (error) {
    body.resume()
    const late = error instanceof StoreTooSlow
    // A put that is given up may still publish its body: the allocated id stays until the sweep removes both.
    if (segmentId && !late) await discard(services, { segmentId })
    if (error instanceof CodedError) throw error
    if ((error as Error).name === 'BodyTooLarge') throw new CodedError(tooLarge)
    const { aborted } = cancel.signal
    if ((!aborted || late) && !isRefused?.())
      services.log.error({ err: error, segmentId }, 'an upload could not be stored')
    throw new CodedError(aborted && !late ? 'UPLOAD_ABORTED' : unstored)
  } finally {
    clearInterval(alive)
  }
}

/** As `storeBody`, for a file. Throws FILE_TOO_LARGE, UPLOAD_ABORTED, and `unstored`. */
export async function storeUpload(
  file: Readable,
  fileName: string,
  services: Services,
  {
    maxBytes = requestCaps.fileBytes,
    ...rules
  }: Pick<Reception, 'ownerId' | 'unstored' | 'maxBytes' | 'smallBesideRow'>,
  cancel: Cancelling,
): Promise<Upload> {
  return { fileName, ...(await storeBody(file, services, { ...rules, maxBytes, tooLarge: 'FILE_TOO_LARGE' }, cancel)) }
}
