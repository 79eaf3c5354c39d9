import type { FindCredential } from './credentials.ts'

/** What the S3 wire needs in addition to what stores objects. */
export interface S3Services {
  findS3Credential: FindCredential
}
