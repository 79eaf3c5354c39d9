import type { OpenedObject, OpenedPart } from '../../../db/objects/manifests.ts'
import { openObject, openWithoutParts } from '../../../db/objects/objects.ts'
import { checksumElement } from '../../../policy/s3/s3-checksums.ts'
import { noSuchKey, S3Error } from '../../../policy/s3/s3-errors.ts'
import type { StoredChecksum } from '../../../policy/s3/s3-facts.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import type { Services } from '../../services.ts'
import { xmlReply } from '../answers.ts'
import { headerOf, type Operation, objectOf, type S3Call } from '../operation.ts'
import { demandNoVersion } from '../versions.ts'
import type { Xml } from '../xml.ts'
import { checksumElements, partsCountOf } from './object-views.ts'

const attributes = ['ETag', 'Checksum', 'ObjectParts', 'StorageClass', 'ObjectSize'] as const
type Attribute = (typeof attributes)[number]

export const getObjectAttributes: Operation = {
  name: 'GetObjectAttributes',
  method: 'GET',
  target: 'object',
  query: ['attributes'],
  support: 'supported',
  needs: 'read',
  async handle(call, services) {
    demandNoVersion(call)
    const requested = requestedAttributes(call)
    const page = requested.includes('ObjectParts') ? pageOf(call) : undefined
    const { object, parts } = await opened(call, services, page)
    const { etag, size, s3, created_at } = object
    const partsCount = partsCountOf(object)
    const all: Record<Attribute, Xml> = {
      ETag: etag,
      Checksum: s3?.checksum && checksumElements(s3.checksum),
      ObjectParts: page && partsCount !== undefined ? partsOf(parts, partsCount, page, s3?.checksum) : undefined,
      StorageClass: 'STANDARD',
      ObjectSize: size,
    }
    const content = Object.fromEntries(attributes.map(name => [name, requested.includes(name) ? all[name] : undefined]))
    return xmlReply('GetObjectAttributesResponse', content, { 'Last-Modified': created_at.toUTCString() })
  },
}

function requestedAttributes(call: S3Call): string[] {
  const names = call.request
    .header('x-amz-object-attributes')
    .flatMap(value => value.split(','))
    .map(name => name.trim())
    .filter(name => name !== '')
  if (names.length === 0 || names.some(name => !(attributes as readonly string[]).includes(name)))
    throw new S3Error('InvalidArgument', `x-amz-object-attributes must name some of ${attributes.join(', ')}.`)
  return names
}

/** The parts of an answer: up to `size` of those after a number. */
interface PartsPage {
  after: number
  size: number
}

function pageOf(call: S3Call): PartsPage {
  const max = numberOf(call, 'x-amz-max-parts') ?? s3Limits.pageEntries
  return { after: numberOf(call, 'x-amz-part-number-marker') ?? 0, size: Math.min(max, s3Limits.pageEntries) }
}

/** The object, with the parts of a page, if one was requested. */
async function opened(call: S3Call, { db }: Services, page: PartsPage | undefined): Promise<OpenedObject> {
  const name = objectOf(call)
  const numbers = page && { from: page.after + 1, to: page.after + page.size }
  const object = numbers ? await openObject(db, name, { numbers }) : await openWithoutParts(db, name)
  if (!object) throw noSuchKey(call.key)
  return object
}

function partsOf(
  parts: readonly OpenedPart[],
  partsCount: number,
  { after, size }: PartsPage,
  checksum: StoredChecksum | undefined,
): Xml {
  const last = after + parts.length
  return {
    PartsCount: partsCount,
    PartNumberMarker: after,
    NextPartNumberMarker: last,
    MaxParts: size,
    IsTruncated: last < partsCount,
    // S3 lists single parts only where they have checksums.
    Part: parts
      .map((part, index) => ({ part, number: after + index + 1 }))
      .filter(({ part }) => checksum && part.checksum !== null)
      .map(({ part, number }) => ({
        PartNumber: number,
        Size: part.length,
        ...(checksum && { [checksumElement(checksum.algorithm)]: part.checksum }),
      })),
  }
}

function numberOf(call: S3Call, name: string): number | undefined {
  const text = headerOf(call, name)
  if (text === undefined) return undefined
  if (!/^\d{1,6}$/.test(text)) throw new S3Error('InvalidArgument', `${name} must be a whole number from 0 on.`)
  return Number(text)
}
