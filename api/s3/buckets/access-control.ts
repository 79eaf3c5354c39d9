import { findObject } from '../../../db/objects/objects.ts'
import { noSuchKey, S3Error } from '../../../policy/s3/s3-errors.ts'
import { refuseUnsupported } from '../../../policy/s3/s3-headers.ts'
import type { Reply } from '../../http/respond.ts'
import type { Services } from '../../services.ts'
import { emptyReply, ownerElements } from '../answers.ts'
import { receiveDocument } from '../bodies/document.ts'
import { headerOf, objectOf, type S3Call } from '../operation.ts'
import type { Xml } from '../xml.ts'
import { childOf, childrenOf, childText, type XmlElement } from '../xml-in.ts'

const everyone = 'http://acs.amazonaws.com/groups/global/AllUsers'
const grantee = (type: string) => `Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="${type}"`

/** Whether everyone may read the objects of a bucket. */
export const isPublic = ({ stored }: Pick<S3Call, 'stored'>): boolean => stored === 'public' || stored === 'legacy'

/** The list of a bucket, which cannot change: its account may do everything, and everyone may read a public one. */
export function accessControl(call: S3Call): Xml {
  const owner = ownerElements(call.caller)
  const grants: Xml[] = [{ [grantee('CanonicalUser')]: owner, Permission: 'FULL_CONTROL' }]
  if (isPublic(call)) grants.push({ [grantee('Group')]: { URI: everyone }, Permission: 'READ' })
  return { Owner: owner, AccessControlList: { Grant: grants } }
}

/** Some programs write back the list that they have read. Any other one is AccessControlListNotSupported. */
export async function keepAccessControl(call: S3Call, services: Services): Promise<Reply> {
  const { header, headerNames } = call.request
  refuseUnsupported(header, headerNames(), isPublic(call))
  const hasBody = headerOf(call, 'content-length') !== '0' && headerOf(call, 'x-amz-acl') === undefined
  if (hasBody) {
    const list = childOf(await receiveDocument(call, 'AccessControlPolicy', services), 'AccessControlList')
    const given = list ? childrenOf(list, 'Grant').map(grantOf) : []
    const own = [`${call.caller.user.id} FULL_CONTROL`, ...(isPublic(call) ? [`${everyone} READ`] : [])]
    if (given.length !== own.length || !own.every(grant => given.includes(grant)))
      throw new S3Error('AccessControlListNotSupported')
  }
  if (call.key !== '') await demandObject(call, services)
  return emptyReply(200)
}

/** Throws NoSuchKey unless the object exists. */
export async function demandObject(call: S3Call, { db }: Services): Promise<void> {
  if (!(await findObject(db, objectOf(call)))) throw noSuchKey(call.key)
}

function grantOf(grant: XmlElement): string {
  const grantee = childOf(grant, 'Grantee')
  const who = grantee && (childText(grantee, 'ID') ?? childText(grantee, 'URI'))
  return `${who} ${childText(grant, 'Permission')}`
}
