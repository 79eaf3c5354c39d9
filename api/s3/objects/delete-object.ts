import { ownTransaction } from '../../../db/locked-slots.ts'
import { findObject, lockNames, removeObject } from '../../../db/objects/objects.ts'
import { objectId } from '../../../policy/objects/object-names.ts'
import { deleteCondition } from '../../../policy/s3/s3-conditions.ts'
import { emptyReply } from '../answers.ts'
import { type Operation, objectOf } from '../operation.ts'
import { countS3 } from '../rights.ts'
import { demandNoVersion } from '../versions.ts'

/** Final once it is answered, also for a key that does not exist; the bytes are swept later. */
export const deleteObject: Operation = {
  name: 'DeleteObject',
  method: 'DELETE',
  target: 'object',
  support: 'supported',
  needs: 'write',
  async handle(call, services) {
    demandNoVersion(call)
    const name = objectOf(call)
    const condition = deleteCondition(call.request.header)
    await countS3(call.caller, services, { of: 'deletedKeys', times: 1 })
    call.exchange.resource = objectId(name)
    await ownTransaction(services.db, call.caller.user.id, async trx => {
      await lockNames(trx, [name])
      condition?.(await findObject(trx, name))
      await removeObject(trx, name)
    })
    return emptyReply(204)
  },
}
