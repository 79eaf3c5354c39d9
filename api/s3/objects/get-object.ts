import type { OpenedObject } from '../../../db/objects/manifests.ts'
import { openObject } from '../../../db/objects/objects.ts'
import type { ByteRange } from '../../../lib/byte-range.ts'
import { type Portion, portionOf } from '../../../lib/preconditions.ts'
import { sandbox } from '../../../policy/objects/object-headers.ts'
import { mayRun } from '../../../policy/objects/object-types.ts'
import { noSuchKey, S3Error } from '../../../policy/s3/s3-errors.ts'
import { shownHeaders, toWire } from '../../../policy/s3/s3-headers.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { openForAnswer, sendableObject } from '../../files/object-download.ts'
import { sendPortion } from '../../files/send-body.ts'
import type { Reply } from '../../http/respond.ts'
import { withinDeadline } from '../../pipeline/deadline.ts'
import type { Services } from '../../services.ts'
import { headerOf, type Operation, objectOf, queryOf, type S3Call } from '../operation.ts'
import { demandNoVersion } from '../versions.ts'
import { expirationHeaders, partsCountOf } from './object-views.ts'

/** Headers that the query of a request replaces in its response. */
const overrides = {
  'response-cache-control': 'Cache-Control',
  'response-content-disposition': 'Content-Disposition',
  'response-content-encoding': 'Content-Encoding',
  'response-content-language': 'Content-Language',
  'response-content-type': 'Content-Type',
  'response-expires': 'Expires',
} as const

export const getObject: Operation = {
  name: 'GetObject',
  method: 'GET',
  target: 'object',
  support: 'supported',
  needs: 'read',
  handle: read,
}

export const headObject: Operation = { ...getObject, name: 'HeadObject', method: 'HEAD' }

async function read(call: S3Call, services: Services): Promise<Reply> {
  demandNoVersion(call)
  const { db } = services
  const name = objectOf(call)
  const number = partNumberOf(call)
  const opened = await withinDeadline(
    number === undefined
      ? openForAnswer(call.exchange, db, name)
      : openObject(db, name, { numbers: { from: number, to: number } }),
  )
  if (!opened) throw noSuchKey(call.key)
  const { object } = opened
  const partsCount = partsCountOf(object)
  const part = number === undefined ? undefined : partOf(call, number, opened, partsCount)
  const portion = portionFor(call, opened, part?.range)
  // A client verifies the checksum of the whole against the body of the answer.
  const isWhole = portion.status === 200
  const withChecksum = isWhole && headerOf(call, 'x-amz-checksum-mode')?.toUpperCase() === 'ENABLED'
  const headers: Record<string, string> = {
    ...shownHeaders(object, { withChecksum }),
    ...expirationHeaders(object),
    ...(part && partsCount !== undefined && { 'x-amz-mp-parts-count': String(partsCount) }),
    ...overridden(call),
  }
  // A browser would run it in the origin of the gateway, which is a sibling of the API's.
  const safe = mayRun(headers['Content-Type']!) ? { ...headers, ...sandbox } : headers
  return sendPortion(call.exchange, sendableObject(opened, services, safe), portion)
}

/** The portion by the conditions and the range of a request. Throws PreconditionFailed and InvalidRange. */
function portionFor(call: S3Call, { object }: OpenedObject, part: ByteRange | null | undefined): Portion {
  const { headers } = call.exchange.request
  const validators = { etag: object.etag, modified: object.created_at, size: object.size }
  // Unlike RFC 9110, S3 evaluates the range of a HEAD too.
  const portion = portionOf('GET', headers, validators)
  if (portion.status === 412) throw new S3Error('PreconditionFailed')
  if (portion.status === 416)
    throw new S3Error('InvalidRange', undefined, {
      RangeRequested: headers.range ?? '',
      ActualObjectSize: String(object.size),
    })
  if (part === undefined || portion.status === 304) return portion
  return { status: 206, range: part }
}

/** The number of a part in the query, 0 for what is none; undefined without one. */
function partNumberOf(call: S3Call): number | undefined {
  const text = queryOf(call, 'partNumber')
  if (text === undefined) return undefined
  return /^\d{1,5}$/.test(text) ? Number(text) : 0
}

/** The part of an object of which only that one was opened. An object in one piece has one part. */
function partOf(
  call: S3Call,
  number: number,
  { parts: [part] }: OpenedObject,
  partsCount = 1,
): { range: ByteRange | null } {
  if (headerOf(call, 'range') !== undefined)
    throw new S3Error('InvalidRequest', 'A request cannot have both a range and a part number.')
  if (number < 1 || number > s3Limits.parts)
    throw new S3Error('InvalidArgument', `partNumber must be from 1 to ${s3Limits.parts}.`)
  if (!part)
    throw new S3Error('InvalidRange', 'The object does not have a part of this number.', {
      ActualPartCount: String(partsCount),
    })
  return { range: part.length > 0 ? { from: part.startsAt, to: part.startsAt + part.length - 1 } : null }
}

/** The signature covers the query, so only the signer of the address decides about these headers. */
function overridden(call: S3Call): Record<string, string> {
  const pairs = Object.entries(overrides).flatMap(([parameter, header]) => {
    const value = queryOf(call, parameter)
    return value === undefined ? [] : [[header, headerValue(value, parameter)]]
  })
  return Object.fromEntries(pairs)
}

function headerValue(value: string, parameter: string): string {
  if (/[\0-\x08\x0a-\x1f\x7f]/.test(value))
    throw new S3Error('InvalidArgument', `${parameter} is no value of a header.`)
  return toWire(value)
}
