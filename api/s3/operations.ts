import { featuresThatAreOff, getBucketCors, getBucketLocation, headBucket } from './buckets/bucket-facts.ts'
import { createBucket, deleteBucket } from './buckets/extra-buckets.ts'
import { listBuckets } from './buckets/list-buckets.ts'
import { bySpecificity } from './dispatch.ts'
import { copyObject } from './objects/copy-object.ts'
import { deleteObject } from './objects/delete-object.ts'
import { deleteObjects } from './objects/delete-objects.ts'
import { getObject, headObject } from './objects/get-object.ts'
import { getObjectAttributes } from './objects/get-object-attributes.ts'
import { listObjects, listObjectsV2, listObjectVersions } from './objects/list-objects.ts'
import { deleteObjectTagging, getObjectTagging, putObjectTagging } from './objects/object-tagging.ts'
import { putObject } from './objects/put-object.ts'
import type { Operation } from './operation.ts'
import { abortMultipartUpload } from './uploads/abort-upload.ts'
import { completeMultipartUpload } from './uploads/complete-upload.ts'
import { createMultipartUpload } from './uploads/create-upload.ts'
import { listParts } from './uploads/list-parts.ts'
import { listMultipartUploads } from './uploads/list-uploads.ts'
import { uploadPart } from './uploads/upload-part.ts'
import { uploadPartCopy } from './uploads/upload-part-copy.ts'

/** Every operation of the S3 wire but PostObject, which is a form; docs/s3.md lists them. The most specific ones come first. */
export const operations: readonly Operation[] = bySpecificity([
  listBuckets,
  headBucket,
  getBucketLocation,
  getBucketCors,
  createBucket,
  deleteBucket,
  listObjects,
  listObjectsV2,
  listObjectVersions,
  getObject,
  headObject,
  getObjectAttributes,
  putObject,
  copyObject,
  deleteObject,
  deleteObjects,
  getObjectTagging,
  putObjectTagging,
  deleteObjectTagging,
  createMultipartUpload,
  uploadPart,
  uploadPartCopy,
  listParts,
  listMultipartUploads,
  completeMultipartUpload,
  abortMultipartUpload,
  ...featuresThatAreOff,
])
