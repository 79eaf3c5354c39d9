import { writeConditions } from '../../../policy/s3/s3-conditions.ts'
import { refuseUnsupported, writtenHeaders } from '../../../policy/s3/s3-headers.ts'
import { writeTerms } from '../../../policy/s3/s3-write-terms.ts'
import { payloadOf } from '../bodies/payload.ts'
import { discardingOnFailure, receivePayload } from '../bodies/receive.ts'
import { type Operation, objectOf } from '../operation.ts'
import { stillMayWrite } from '../rights.ts'
import { writtenReply } from './object-views.ts'
import { inSlotUnlessSmall } from './upload-slots.ts'
import { assertMayWrite, assertRoom, bodyRules, writeObject } from './write-object.ts'

/** Answers once the bytes are synced and the object's row is committed. A body that is not what it was stated to be changes nothing. */
export const putObject: Operation = {
  name: 'PutObject',
  method: 'PUT',
  target: 'object',
  support: 'supported',
  needs: 'write',
  async handle(call, services) {
    const { request, exchange, caller, key, stored } = call
    assertMayWrite(call)
    const name = objectOf(call)
    const headers = writtenHeaders(request.header, request.headerNames(), key)
    refuseUnsupported(request.header, request.headerNames(), stored === 'public')
    const conditions = writeConditions(request.header)
    const payload = payloadOf(request, call.authorization, call.signer)
    return inSlotUnlessSmall(call, payload.length, services, async (held, rules) => {
      const terms = writeTerms(name, headers, caller, rules)
      await assertRoom(payload.length, name, caller, services)
      const bounds = { ...bodyRules(name, terms), smallBesideRow: true } as const
      const received = await receivePayload(exchange, services, payload, bounds)
      return discardingOnFailure(services, received.arrived, async () => {
        await stillMayWrite(exchange, call.authorization.accessKeyId, services)
        const write = { call, operation: 'PutObject', received, headers, terms, conditions, held }
        const { object } = await writeObject(write, services)
        return writtenReply(object)
      })
    })
  },
}
