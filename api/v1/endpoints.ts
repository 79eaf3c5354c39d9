import type { Endpoint } from '../endpoint.ts'
import { blobStats } from './blob-stats.ts'
import { chunkedOpen, chunkedStatus } from './chunked.ts'
import { chunkedAbort, chunkedComplete } from './chunked-ends.ts'
import { chunkedInit } from './chunked-init.ts'
import { chunkedPart } from './chunked-part.ts'
import { objectsCopy } from './object-copy.ts'
import { objectsDownload } from './object-download.ts'
import { objectsList } from './object-list.ts'
import { objectsUpdate } from './object-update.ts'
import { objectsUpload } from './object-upload.ts'
import { objectsDelete, objectsInfo } from './objects.ts'
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
