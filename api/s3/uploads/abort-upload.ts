import { ownTransaction } from '../../../db/locked-slots.ts'
import { abortUpload } from '../../../db/objects/uploads/upload-ends.ts'
import { objectId } from '../../../policy/objects/object-names.ts'
import { emptyReply } from '../answers.ts'
import { type Operation, objectOf } from '../operation.ts'
import { noSuchUpload, ownUpload } from './own-upload.ts'

/** Drops what was sent. A part that is still arriving finds no upload, and leaves nothing. */
export const abortMultipartUpload: Operation = {
  name: 'AbortMultipartUpload',
  method: 'DELETE',
  target: 'object',
  query: ['uploadId'],
  support: 'supported',
  needs: 'write',
  async handle(call, services) {
    const { id, owner_id: ownerId } = await ownUpload(call, services)
    call.exchange.resource = objectId(objectOf(call))
    const end = await ownTransaction(services.db, ownerId, trx => abortUpload(trx, { id, ownerId }))
    if (end !== 'aborted') throw noSuchUpload(id)
    return emptyReply(204)
  },
}
