import type { Endpoint } from '../pipeline/endpoint.ts'
import { getBlobStats } from './blob-stats.ts'
import { getChunkedUpload, listChunkedUploads } from './chunked/chunked.ts'
import { abortChunkedUpload, completeChunkedUpload } from './chunked/chunked-ends.ts'
import { beginChunkedUpload } from './chunked/chunked-init.ts'
import { uploadPart } from './chunked/chunked-part.ts'
import { copyObject } from './objects/object-copy.ts'
import { downloadObject } from './objects/object-download.ts'
import { listObjects } from './objects/object-list.ts'
import { updateObjects } from './objects/object-update.ts'
import { uploadObject } from './objects/object-upload.ts'
import { deleteObjects, getObject } from './objects/objects.ts'
import { getUploadRules, saveUploadRules } from './rules.ts'
import { getS3Credentials } from './s3-credentials.ts'
import { createShare, deleteShare, listShares } from './shares.ts'
import { createUploadToken } from './upload-tokens.ts'

/** Every endpoint of the blob API, as `api/v2/endpoints.ts` lists those of the management API. */
export const blobEndpoints: readonly Endpoint[] = [
  uploadObject,
  listObjects,
  getObject,
  updateObjects,
  deleteObjects,
  copyObject,
  downloadObject,
  beginChunkedUpload,
  uploadPart,
  getChunkedUpload,
  listChunkedUploads,
  completeChunkedUpload,
  abortChunkedUpload,
  createShare,
  listShares,
  deleteShare,
  createUploadToken,
  getUploadRules,
  saveUploadRules,
  getBlobStats,
  getS3Credentials,
]
