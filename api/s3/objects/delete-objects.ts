import { ownTransaction } from '../../../db/locked-slots.ts'
import { removeObjects } from '../../../db/objects/object-removal.ts'
import { isKey, type ObjectName } from '../../../policy/objects/object-names.ts'
import { isKeyWithin } from '../../../policy/objects/prefix-limits.ts'
import { S3Error, s3Errors } from '../../../policy/s3/s3-errors.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { xmlReply } from '../answers.ts'
import { receiveDocument } from '../bodies/document.ts'
import { headerOf, type Operation, type S3Call } from '../operation.ts'
import { countS3 } from '../rights.ts'
import { onlyVersion } from '../versions.ts'
import type { Xml } from '../xml.ts'
import { childrenOf, childText, type XmlElement } from '../xml-in.ts'

/** Each name is a lock, of which Postgres has a few thousand for all of its transactions. */
const namesPerTransaction = 500

/** Deletes up to 1000 keys. A key that does not exist counts as deleted. */
export const deleteObjects: Operation = {
  name: 'DeleteObjects',
  method: 'POST',
  target: 'bucket',
  query: ['delete'],
  support: 'supported',
  needs: 'write',
  async handle(call, services) {
    demandDigest(call)
    const document = await receiveDocument(call, 'Delete', services)
    const entries = childrenOf(document, 'Object').map(entryOf)
    if (entries.length === 0 || entries.length > s3Limits.deletedKeys) throw new S3Error('MalformedXML')
    await countS3(call.caller, services, { of: 'deletedKeys', times: entries.length })
    const { names, errors } = sorted(entries, call)
    for (let n = 0; n < names.length; n += namesPerTransaction)
      await ownTransaction(services.db, call.caller.user.id, trx =>
        removeObjects(trx, names.slice(n, n + namesPerTransaction)),
      )
    const isQuiet = childText(document, 'Quiet')?.trim() === 'true'
    const deleted = isQuiet ? [] : names.map(({ key }) => ({ Key: key }))
    return xmlReply('DeleteResult', { Deleted: deleted, Error: errors })
  },
}

interface Entry {
  key: string
  version: string | undefined
}

const conditions = ['ETag', 'LastModifiedTime', 'Size']

function entryOf(element: XmlElement): Entry {
  const key = childText(element, 'Key')
  if (!key) throw new S3Error('MalformedXML')
  if (conditions.some(name => childText(element, name) !== undefined))
    throw new S3Error('NotImplemented', 'Conditions of single keys are not supported; DeleteObject has If-Match.')
  return { key, version: childText(element, 'VersionId') }
}

/** A body without a digest could be altered in transit, and delete other objects. */
function demandDigest(call: S3Call): void {
  const names = [...call.request.headerNames()]
  const isStated =
    headerOf(call, 'content-md5') !== undefined ||
    names.some(name => /^x-amz-(checksum-(?!algorithm)|trailer)/.test(name))
  if (!isStated && !/^[0-9a-f]{64}$/i.test(call.authorization.payload))
    throw new S3Error('InvalidRequest', 'DeleteObjects requires Content-MD5 or a checksum.')
}

function sorted(entries: readonly Entry[], { caller, stored }: S3Call): { names: ObjectName[]; errors: Xml[] } {
  const names = new Map<string, ObjectName>()
  const errors: Xml[] = []
  const refuse = (key: string, code: keyof typeof s3Errors) =>
    errors.push({ Key: key, Code: code, Message: s3Errors[code][1] })
  for (const { key, version } of entries) {
    if (!isKey(key)) refuse(key, 'KeyTooLongError')
    else if (!isKeyWithin(caller.prefixes, key)) refuse(key, 'AccessDenied')
    else if (version !== undefined && version !== '' && version !== onlyVersion) refuse(key, 'NoSuchVersion')
    else names.set(key, { ownerId: caller.user.id, bucket: stored, key })
  }
  return { names: [...names.values()], errors }
}
