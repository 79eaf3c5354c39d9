import { transaction } from '../../../db/database.ts'
import { listRules } from '../../../db/objects/blob-rules.ts'
import { copyObject as copyRow, type ObjectChanges } from '../../../db/objects/object-changes.ts'
import type { ObjectRow } from '../../../db/objects/objects.ts'
import { objectId } from '../../../policy/objects/object-names.ts'
import { demandCopySource, writeConditions } from '../../../policy/s3/s3-conditions.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { refuseUnsupported, type WrittenHeaders, writtenHeaders } from '../../../policy/s3/s3-headers.ts'
import { writeTerms } from '../../../policy/s3/s3-write-terms.ts'
import { xmlReply } from '../answers.ts'
import { headerOf, type Operation, objectOf, type S3Call } from '../operation.ts'
import { countS3 } from '../rights.ts'
import { copySource, sourceObject } from './copy-source.ts'
import { checksumElements, expirationHeaders, quoted } from './object-views.ts'
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
    const source = await sourceObject(from, services)
    const rules = await listRules(services.db, caller.user.id)
    exchange.resource = objectId(to)
    const copied = await reservingFor(source.size, to, caller, services, charge =>
      transaction(services.db, trx =>
        copyRow(trx, from, to, {
          ...conditions,
          charge,
          // Of the source as it is then: its headers and tags may have changed since it was read.
          changes(current) {
            const shown = replaces ? headers : { cacheControl: current.cache_control }
            const { cacheControl, expiresAt, maxBytes } = writeTerms(to, shown, caller, rules, new Date())
            // Replaced since it was read: its size is another.
            if (current.generation !== source.generation) throw new S3Error('OperationAborted')
            if (current.size > maxBytes) throw new S3Error('EntityTooLarge')
            demandCopySource(request.header, current)
            const s3 = factsOf(current, headers, { replaces, replacesTags })
            return { ...(replaces && changesOf(headers)), cacheControl, expiresAt, s3 }
          },
        }),
      ),
    )
    if (!copied) throw new S3Error('NoSuchKey', undefined, { Key: from.key })
    const { object } = copied
    const result = { LastModified: object.created_at, ETag: quoted(object.etag) }
    return xmlReply(
      'CopyObjectResult',
      { ...result, ...checksumElements(object.s3?.checksum) },
      expirationHeaders(object),
    )
  },
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
