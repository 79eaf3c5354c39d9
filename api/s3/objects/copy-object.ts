import { ownTransaction } from '../../../db/locked-slots.ts'
import { listRules } from '../../../db/objects/blob-rules.ts'
import { type CopyOptions, copyObject as copyRow, type ObjectChanges } from '../../../db/objects/object-changes.ts'
import type { ObjectRow } from '../../../db/objects/objects.ts'
import { type ObjectName, objectId } from '../../../policy/objects/object-names.ts'
import { demandCopySource, writeConditions } from '../../../policy/s3/s3-conditions.ts'
import { noSuchKey, S3Error } from '../../../policy/s3/s3-errors.ts'
import { refuseUnsupported, type WrittenHeaders, writtenHeaders } from '../../../policy/s3/s3-headers.ts'
import { expiryOf, writeTerms } from '../../../policy/s3/s3-write-terms.ts'
import { entryOf } from '../../pipeline/audit.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Services } from '../../services.ts'
import { assertReserved, retryingOutgrown } from '../../uploads/storage-charge.ts'
import { xmlReply } from '../answers.ts'
import { headerOf, type Operation, objectOf, type S3Call } from '../operation.ts'
import { countS3 } from '../rights.ts'
import { copySource, sourceObject } from './copy-source.ts'
import { checksumElements, expirationHeaders, quotedEtag } from './object-views.ts'
import { assertMayWrite, reservingFor } from './write-object.ts'

/** No byte moves: a copy refers to the same segments, and counts in the storage of the account. */
export const copyObject: Operation = {
  name: 'CopyObject',
  method: 'PUT',
  target: 'object',
  header: 'x-amz-copy-source',
  support: 'supported',
  needs: 'write',
  async handle(call, services) {
    const { request, caller, key, stored, exchange } = call
    assertMayWrite(call)
    await countS3(caller, services, { of: 'copies', times: 1 })
    const to = objectOf(call)
    const from = await copySource(call, services)
    const headers = writtenHeaders(request.header, request.headerNames(), key)
    refuseUnsupported(request.header, request.headerNames(), stored === 'public')
    const [replaces, replacesTags] = [directiveOf(call, 'metadata'), directiveOf(call, 'tagging')]
    if (from.bucket === to.bucket && from.key === to.key && !replaces && !replacesTags)
      throw new S3Error(
        'InvalidRequest',
        'An object can be copied onto itself only if its metadata or its tags change.',
      )
    const conditions = writeConditions(request.header)
    const rules = await listRules(services.db, caller.user.id)
    exchange.resource = objectId(to)
    const ending = { entry: entryOf('s3.CopyObject', { caller }, exchange, 'success') }
    // Of the source as it is while it is locked: it may have changed since its size was read.
    const changes = (source: ObjectRow): ObjectChanges => {
      demandCopySource(request.header, source)
      demandChecksum(call, source)
      const terms = writeTerms(to, replaces ? headers : { cacheControl: source.cache_control }, caller, rules)
      if (source.size > terms.maxBytes) throw new S3Error('EntityTooLarge')
      const s3 = factsOf(source, headers, { replaces, replacesTags })
      const { cacheControl } = terms
      return { ...(replaces && changesOf(headers)), cacheControl, expiresAt: expiryOf(terms), s3 }
    }
    const object = await copied({ from, to, caller, options: { ...conditions, changes, ending } }, services)
    exchange.recorded = true
    const result = { LastModified: object.created_at, ETag: quotedEtag(object.etag) }
    return xmlReply(
      'CopyObjectResult',
      { ...result, ...checksumElements(object.s3?.checksum) },
      expirationHeaders(object),
    )
  },
}

interface Copy {
  from: ObjectName
  to: ObjectName
  caller: Caller
  options: CopyOptions & { changes(source: ObjectRow): ObjectChanges }
}

/** Copies the source as it is; again if it was replaced by a larger one, for which no room was reserved. */
async function copied({ from, to, caller, options }: Copy, services: Services): Promise<ObjectRow> {
  return retryingOutgrown(new S3Error('OperationAborted'), async () => {
    const { size } = await sourceObject(from, services)
    const changes = (source: ObjectRow): ObjectChanges => {
      assertReserved(source.size, size)
      return options.changes(source)
    }
    const copy = await reservingFor(size, to, caller, services, charge =>
      ownTransaction(services.db, to.ownerId, trx => copyRow(trx, from, to, { ...options, charge, changes })),
    )
    if (!copy) throw noSuchKey(from.key)
    return copy.object
  })
}

/** A copy has the checksum of its source: another one would have to be calculated. Throws NotImplemented. */
function demandChecksum(call: S3Call, { s3 }: ObjectRow): void {
  const requested = headerOf(call, 'x-amz-checksum-algorithm')?.toUpperCase()
  if (requested !== undefined && requested !== s3?.checksum?.algorithm)
    throw new S3Error('NotImplemented', 'A copy has the checksum of its source, and cannot get another one.')
}

/** Whether the copy gets what the request says (REPLACE) in place of what the source has (COPY, the default). Throws InvalidArgument. */
function directiveOf(call: S3Call, what: 'metadata' | 'tagging'): boolean {
  const directive = headerOf(call, `x-amz-${what}-directive`)?.toUpperCase() ?? 'COPY'
  if (directive !== 'COPY' && directive !== 'REPLACE')
    throw new S3Error('InvalidArgument', `x-amz-${what}-directive must be COPY or REPLACE.`)
  return directive === 'REPLACE'
}

const changesOf = ({ contentType, contentDisposition, metadata }: WrittenHeaders): ObjectChanges => ({
  contentType,
  contentDisposition,
  metadata,
})

/** The checksum is one of the bytes, which are the source's. */
function factsOf(
  { s3 }: ObjectRow,
  headers: WrittenHeaders,
  { replaces, replacesTags }: { replaces: boolean; replacesTags: boolean },
): ObjectRow['s3'] {
  const { checksum, tags, ...shown } = s3 ?? {}
  const { tags: ownTags, ...ownShown } = headers.s3
  return { ...(replaces ? ownShown : shown), checksum, tags: replacesTags ? ownTags : tags }
}
