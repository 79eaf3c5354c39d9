import { ownTransaction } from '../../../db/locked-slots.ts'
import { setTags } from '../../../db/objects/object-changes.ts'
import { findObject } from '../../../db/objects/objects.ts'
import { objectId } from '../../../policy/objects/object-names.ts'
import { noSuchKey, S3Error } from '../../../policy/s3/s3-errors.ts'
import { checkedTags } from '../../../policy/s3/s3-tags.ts'
import type { Services } from '../../services.ts'
import { emptyReply, xmlReply } from '../answers.ts'
import { receiveDocument } from '../bodies/document.ts'
import { type Operation, objectOf, type S3Call } from '../operation.ts'
import { demandNoVersion } from '../versions.ts'
import { childOf, childrenOf, childText } from '../xml-in.ts'
import { assertMayWrite } from './write-object.ts'

const tagging = { target: 'object', query: ['tagging'], support: 'supported' } as const

export const getObjectTagging: Operation = {
  ...tagging,
  name: 'GetObjectTagging',
  method: 'GET',
  needs: 'read',
  async handle(call, { db }) {
    demandNoVersion(call)
    const object = await findObject(db, objectOf(call))
    if (!object) throw noSuchKey(call.key)
    const tags = Object.entries(object.s3?.tags ?? {}).map(([Key, Value]) => ({ Key, Value }))
    return xmlReply('Tagging', { TagSet: { Tag: tags } })
  },
}

export const putObjectTagging: Operation = {
  ...tagging,
  name: 'PutObjectTagging',
  method: 'PUT',
  needs: 'write',
  async handle(call, services) {
    const document = await receiveDocument(call, 'Tagging', services)
    const set = childOf(document, 'TagSet')
    if (!set) throw new S3Error('MalformedXML')
    const pairs = childrenOf(set, 'Tag').map(
      tag => [childText(tag, 'Key') ?? '', childText(tag, 'Value') ?? ''] as const,
    )
    await change(call, checkedTags(pairs), services)
    return emptyReply(200)
  },
}

export const deleteObjectTagging: Operation = {
  ...tagging,
  name: 'DeleteObjectTagging',
  method: 'DELETE',
  needs: 'write',
  async handle(call, services) {
    await change(call, {}, services)
    return emptyReply(204)
  },
}

async function change(call: S3Call, tags: Record<string, string>, services: Services): Promise<void> {
  assertMayWrite(call)
  demandNoVersion(call)
  const name = objectOf(call)
  call.exchange.resource = objectId(name)
  if (!(await ownTransaction(services.db, name.ownerId, trx => setTags(trx, name, tags)))) throw noSuchKey(call.key)
}
