import { s3Region } from '../../../policy/objects/s3-credentials.ts'
import { type S3Code, S3Error } from '../../../policy/s3/s3-errors.ts'
import { emptyReply, xmlReply } from '../answers.ts'
import { allowedOrigins } from '../cors.ts'
import type { Operation, S3Call } from '../operation.ts'
import type { Xml } from '../xml.ts'
import { accessControl, demandObject, isPublic, keepAccessControl } from './access-control.ts'

export const headBucket: Operation = {
  name: 'HeadBucket',
  method: 'HEAD',
  target: 'bucket',
  support: 'supported',
  needs: 'read',
  handle: async () => emptyReply(200, { 'x-amz-bucket-region': s3Region }),
}

/** Clients sign with what they read here; an empty element is us-east-1, which is accepted everywhere. */
export const getBucketLocation: Operation = {
  name: 'GetBucketLocation',
  method: 'GET',
  target: 'bucket',
  query: ['location'],
  support: 'supported',
  needs: 'read',
  handle: async () => xmlReply('LocationConstraint', ''),
}

/** The one setting of buckets: origins whose pages may send requests, which the operator sets. */
export const getBucketCors: Operation = {
  name: 'GetBucketCors',
  method: 'GET',
  target: 'bucket',
  query: ['cors'],
  support: 'supported',
  needs: 'read',
  async handle({ bucket }, { config }) {
    const origins = allowedOrigins(bucket, config)
    if (!origins) throw new S3Error('NoSuchCORSConfiguration', undefined, { BucketName: bucket })
    return xmlReply('CORSConfiguration', {
      CORSRule: {
        AllowedOrigin: origins,
        AllowedMethod: ['GET', 'HEAD', 'PUT', 'POST', 'DELETE'],
        AllowedHeader: '*',
        MaxAgeSeconds: 3600,
      },
    })
  },
}

/** Features that are off, with the document that S3 answers then. */
const documents: [name: string, query: string, root: string, content: Xml | ((call: S3Call) => Xml)][] = [
  ['GetBucketVersioning', 'versioning', 'VersioningConfiguration', ''],
  ['GetBucketLogging', 'logging', 'BucketLoggingStatus', ''],
  ['GetBucketNotificationConfiguration', 'notification', 'NotificationConfiguration', ''],
  ['GetBucketAccelerateConfiguration', 'accelerate', 'AccelerateConfiguration', ''],
  ['GetBucketRequestPayment', 'requestPayment', 'RequestPaymentConfiguration', { Payer: 'BucketOwner' }],
  ['GetBucketAcl', 'acl', 'AccessControlPolicy', accessControl],
  [
    'GetBucketOwnershipControls',
    'ownershipControls',
    'OwnershipControls',
    { Rule: { ObjectOwnership: 'BucketOwnerEnforced' } },
  ],
  ['GetBucketPolicyStatus', 'policyStatus', 'PolicyStatus', call => ({ IsPublic: isPublic(call) })],
]

/** Features that are off, with the code that S3 answers then. */
const codes: [name: string, query: string, code: S3Code][] = [
  ['GetBucketPolicy', 'policy', 'NoSuchBucketPolicy'],
  ['GetBucketLifecycleConfiguration', 'lifecycle', 'NoSuchLifecycleConfiguration'],
  ['GetBucketEncryption', 'encryption', 'ServerSideEncryptionConfigurationNotFoundError'],
  ['GetObjectLockConfiguration', 'object-lock', 'ObjectLockConfigurationNotFoundError'],
  ['GetPublicAccessBlock', 'publicAccessBlock', 'NoSuchPublicAccessBlockConfiguration'],
  ['GetBucketReplication', 'replication', 'ReplicationConfigurationNotFoundError'],
  ['GetBucketTagging', 'tagging', 'NoSuchTagSet'],
  ['GetBucketWebsite', 'website', 'NoSuchWebsiteConfiguration'],
]

const off = { method: 'GET', support: 'off', needs: 'read' } as const

/** Programs request these before they use a bucket, and stop at an answer that S3 would not give. */
export const featuresThatAreOff: Operation[] = [
  ...documents.map(
    ([name, query, root, content]): Operation => ({
      ...off,
      name,
      target: 'bucket',
      query: [query],
      handle: async call => xmlReply(root, typeof content === 'function' ? content(call) : content),
    }),
  ),
  ...codes.map(
    ([name, query, code]): Operation => ({
      ...off,
      name,
      target: 'bucket',
      query: [query],
      async handle({ bucket }) {
        throw new S3Error(code, undefined, { BucketName: bucket })
      },
    }),
  ),
  {
    ...off,
    name: 'GetObjectAcl',
    target: 'object',
    query: ['acl'],
    async handle(call, services) {
      await demandObject(call, services)
      return xmlReply('AccessControlPolicy', accessControl(call))
    },
  },
  ...(['retention', 'legal-hold'] as const).map(
    (query): Operation => ({
      ...off,
      name: query === 'retention' ? 'GetObjectRetention' : 'GetObjectLegalHold',
      target: 'object',
      query: [query],
      async handle(call, services) {
        await demandObject(call, services)
        throw new S3Error('NoSuchObjectLockConfiguration')
      },
    }),
  ),
  ...(['bucket', 'object'] as const).map(
    (target): Operation => ({
      name: target === 'bucket' ? 'PutBucketAcl' : 'PutObjectAcl',
      method: 'PUT',
      target,
      query: ['acl'],
      support: 'off',
      needs: 'write',
      handle: keepAccessControl,
    }),
  ),
]
