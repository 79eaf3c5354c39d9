import { S3Error } from '../../policy/s3/s3-errors.ts'
import { queryOf, type S3Call } from './operation.ts'

/** The id of the only version that an object has while versioning is off. */
export const onlyVersion = 'null'

/** Throws NoSuchVersion for a request that names another version than the only one. */
export function demandNoVersion(call: Pick<S3Call, 'request'>): void {
  assertOnlyVersion(queryOf(call, 'versionId'))
}

export function assertOnlyVersion(version: string | undefined): void {
  if (version !== undefined && version !== '' && version !== onlyVersion) throw new S3Error('NoSuchVersion')
}
