import type { OpenedObject } from '../../../db/objects/manifests.ts'
import { openObject } from '../../../db/objects/objects.ts'
import { checksumElement } from '../../../policy/s3/s3-checksums.ts'
import { noSuchKey, S3Error } from '../../../policy/s3/s3-errors.ts'
import type { StoredChecksum } from '../../../policy/s3/s3-facts.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { xmlReply } from '../answers.ts'
import { headerOf, type Operation, objectOf, type S3Call } from '../operation.ts'
import { demandNoVersion } from '../versions.ts'
import type { Xml } from '../xml.ts'
import { checksumElements } from './object-views.ts'

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
    const opened = await openObject(services.db, objectOf(call))
    if (!opened) throw noSuchKey(call.key)
    const { etag, size, s3, created_at } = opened.object
    const all: Record<Attribute, Xml> = {
      ETag: etag,
      Checksum: s3?.checksum && checksumElements(s3.checksum),
      ObjectParts: isInParts(opened) ? partsOf(opened, call, s3?.checksum) : undefined,
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

/** The ETag of an object in parts ends with their number. */
const isInParts = ({ object }: OpenedObject): boolean => object.etag.includes('-')

function partsOf({ parts }: OpenedObject, call: S3Call, checksum: StoredChecksum | undefined): Xml {
  const max = numberOf(call, 'x-amz-max-parts') ?? s3Limits.pageEntries
  const after = numberOf(call, 'x-amz-part-number-marker') ?? 0
  const size = Math.min(max, s3Limits.pageEntries)
  const page = parts.slice(after, after + size)
  const last = after + page.length
  return {
    PartsCount: parts.length,
    PartNumberMarker: after,
    NextPartNumberMarker: last,
    MaxParts: size,
    IsTruncated: last < parts.length,
    // S3 lists single parts only where they have checksums.
    Part: page
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
