import { S3Error } from '../../policy/s3/s3-errors.ts'
import type { Address } from './addressing.ts'
import type { Operation } from './operation.ts'
import type { SignedRequest } from './signature/signed-request.ts'

/** Parameters that make a request one about a part of a bucket or object. One that no operation selects is NotImplemented, never ignored. */
export const subResources: ReadonlySet<string> = new Set([
  ...'abac accelerate acl analytics attributes cors delete encryption intelligent-tiering inventory legal-hold'.split(
    ' ',
  ),
  ...'lifecycle location logging metadataConfiguration metadataInventoryTable metadataJournalTable metadataTable'.split(
    ' ',
  ),
  ...'metrics notification object-lock ownershipControls partNumber policy policyStatus publicAccessBlock'.split(' '),
  ...'renameObject replication requestPayment restore retention select session tagging torrent uploadId uploads'.split(
    ' ',
  ),
  ...'versioning versions website'.split(' '),
])

/** Sorts operations so that the first one that matches a request is the most specific. */
export const bySpecificity = (operations: readonly Operation[]): readonly Operation[] =>
  [...operations].sort((a, b) => selectors(b) - selectors(a))

const selectors = ({ query = [], header }: Operation): number => query.length + (header ? 1 : 0)

/** The operation that a request names; `operations` are sorted by specificity. Throws NotImplemented and MethodNotAllowed. */
export function operationOf(operations: readonly Operation[], request: SignedRequest, address: Address): Operation {
  const target = address.bucket === null ? 'service' : address.key === null ? 'bucket' : 'object'
  const names = new Set(request.query.map(({ name }) => name))
  const operation = operations.find(
    ({ method, target: own, query = [], header }) =>
      method === request.method &&
      own === target &&
      query.every(name => names.has(name)) &&
      (header === undefined || request.header(header).length > 0),
  )
  const unselected = [...names].find(name => subResources.has(name) && !operation?.query?.includes(name))
  // GetObject and HeadObject read one part of an object by its number.
  const isRead = unselected === 'partNumber' && target === 'object' && /^(GET|HEAD)$/.test(request.method)
  if (unselected !== undefined && !isRead)
    throw new S3Error('NotImplemented', `The sub-resource ${unselected} is not implemented for this method.`)
  if (!operation) throw new S3Error('MethodNotAllowed')
  return operation
}
