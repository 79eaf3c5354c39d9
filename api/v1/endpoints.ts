import type { Endpoint } from '../pipeline/endpoint.ts'
import { blobStats } from './blob-stats.ts'
import { chunkedOpen, chunkedStatus } from './chunked/chunked.ts'
import { chunkedAbort, chunkedComplete } from './chunked/chunked-ends.ts'
import { chunkedInit } from './chunked/chunked-init.ts'
import { chunkedPart } from './chunked/chunked-part.ts'
import { objectsCopy } from './objects/object-copy.ts'
import { objectsDownload } from './objects/object-download.ts'
import { objectsList } from './objects/object-list.ts'
import { objectsUpdate } from './objects/object-update.ts'
import { objectsUpload } from './objects/object-upload.ts'
import { objectsDelete, objectsInfo } from './objects/objects.ts'
import { rulesRead, rulesSave } from './rules.ts'
import { s3Credentials } from './s3-credentials.ts'
import { sharesCreate, sharesDelete, sharesList } from './shares.ts'
import { uploadTokensCreate } from './upload-tokens.ts'

/** Every endpoint of the blob API; see the list in `app.ts`. */
export const blobEndpoints: readonly Endpoint[] = [
  objectsUpload,
  objectsList,
  objectsInfo,
  objectsUpdate,
  objectsDelete,
  objectsCopy,
  objectsDownload,
  chunkedInit,
  chunkedPart,
  chunkedStatus,
  chunkedOpen,
  chunkedComplete,
  chunkedAbort,
  sharesCreate,
  sharesList,
  sharesDelete,
  uploadTokensCreate,
  rulesRead,
  rulesSave,
  blobStats,
  s3Credentials,
]
