import { type CodedError, type ErrorCode, Refusal } from '../errors.ts'

/** Every code of the S3 wire with its HTTP status and its message (contract 10.5). Clients of S3 branch on the code. */
export const s3Errors = {
  AccessControlListNotSupported: [400, 'Access control lists are off: the bucket decides who can read its objects.'],
  AuthorizationHeaderMalformed: [400, 'The authorization header is malformed.'],
  AuthorizationQueryParametersError: [400, 'The query parameters of the signature are missing or malformed.'],
  BadDigest: [400, 'The checksum that was sent does not match the received bytes. Nothing was stored.'],
  EntityTooLarge: [400, 'The upload exceeds the maximum size.'],
  EntityTooSmall: [400, 'Every part except the last must be at least 5 MiB.'],
  IncompleteBody: [400, 'The body does not have the number of bytes that its headers state.'],
  InvalidArgument: [400, 'An argument is invalid.'],
  InvalidBucketName: [400, 'The name of the bucket is invalid.'],
  InvalidDigest: [400, 'Content-MD5 must be 16 bytes in base64.'],
  InvalidPart: [400, 'A part was not uploaded, or its ETag differs.'],
  InvalidPartOrder: [400, 'The parts must be listed in ascending order.'],
  InvalidStorageClass: [400, 'The only storage class is STANDARD.'],
  InvalidTag: [
    400,
    'There must be at most 10 tags, with unique keys of 1 to 128 characters and values of at most 256.',
  ],
  InvalidRequest: [400, 'The request is invalid.'],
  KeyTooLongError: [400, 'The key is too long.'],
  MalformedPOSTRequest: [400, 'The body of the form is not well-formed multipart/form-data.'],
  MalformedXML: [400, 'The XML is not well-formed, or not what this operation expects.'],
  MetadataTooLarge: [400, 'The metadata headers exceed the maximum size.'],
  TooManyBuckets: [400, 'The account has the maximum number of buckets.'],
  XAmzContentSHA256Mismatch: [400, 'x-amz-content-sha256 does not match the SHA-256 of the received bytes.'],
  AccessDenied: [403, 'Access denied.'],
  InvalidAccessKeyId: [403, 'The access key id does not exist, or is no longer valid.'],
  RequestTimeTooSkewed: [403, 'The time of the request differs too much from the time of the server.'],
  SignatureDoesNotMatch: [
    403,
    'The signature does not match the request. Check the secret access key and how the request is signed.',
  ],
  QuotaExceeded: [403, 'The storage of the plan is used up.'],
  NoSuchBucket: [404, 'The bucket does not exist.'],
  NoSuchBucketPolicy: [404, 'The bucket has no policy.'],
  NoSuchCORSConfiguration: [404, 'The bucket has no CORS configuration.'],
  NoSuchKey: [404, 'The key does not exist.'],
  NoSuchLifecycleConfiguration: [404, 'The bucket has no lifecycle configuration.'],
  NoSuchObjectLockConfiguration: [404, 'The object is not locked: object lock is off.'],
  NoSuchPublicAccessBlockConfiguration: [404, 'The bucket has no public access block.'],
  NoSuchTagSet: [404, 'The bucket has no tags.'],
  NoSuchUpload: [404, 'The upload does not exist. It may have been aborted or completed.'],
  NoSuchVersion: [404, 'The version does not exist: versioning is off.'],
  NoSuchWebsiteConfiguration: [404, 'The bucket has no website configuration.'],
  ObjectLockConfigurationNotFoundError: [404, 'Object lock is off.'],
  ReplicationConfigurationNotFoundError: [404, 'Replication is off.'],
  ServerSideEncryptionConfigurationNotFoundError: [404, 'The bucket has no encryption configuration.'],
  MethodNotAllowed: [405, 'The method is not allowed for this resource.'],
  BucketAlreadyOwnedByYou: [409, 'The bucket exists already, and is yours.'],
  BucketNotEmpty: [409, 'The bucket is not empty.'],
  OperationAborted: [409, 'Another operation on this resource is in progress. Try again.'],
  MissingContentLength: [411, 'Content-Length is required.'],
  PreconditionFailed: [412, 'A condition of the request is not met.'],
  InvalidRange: [416, 'The range lies outside of the object.'],
  InternalError: [500, 'An internal error occurred. Try again.'],
  NotImplemented: [501, 'This operation is not implemented.'],
  SlowDown: [503, 'Too many requests. Send fewer per second.'],
  ServiceUnavailable: [503, 'The service is unavailable. Try again.'],
} as const satisfies Record<string, readonly [number, string]>

export type S3Code = keyof typeof s3Errors

/** A refusal on the S3 wire. `elements` are added to the XML, such as `<Region>`. */
export class S3Error extends Refusal {
  constructor(
    readonly code: S3Code,
    message: string = s3Errors[code][1],
    readonly elements: Readonly<Record<string, string>> = {},
    readonly retryAfterSeconds = 1,
  ) {
    super(message)
  }

  get status(): number {
    return s3Errors[this.code][0]
  }
}

export const noSuchKey = (key: string): S3Error => new S3Error('NoSuchKey', undefined, { Key: key })

/** Codes of the platform on the S3 wire; others are InternalError. The message stays, unless S3 has one of its own for the code. */
const ofPlatform: Partial<Record<ErrorCode, S3Code>> = {
  ACCOUNT_BLOCKED: 'AccessDenied',
  BLOCKED_FILE_TYPE: 'AccessDenied',
  COUNTRY_BLOCKED: 'AccessDenied',
  DATABASE_UNAVAILABLE: 'ServiceUnavailable',
  FILE_TOO_LARGE: 'EntityTooLarge',
  FILE_TYPE_NOT_ALLOWED: 'AccessDenied',
  INVALID_INPUT: 'InvalidArgument',
  INVALID_JSON_BODY: 'IncompleteBody',
  KEEP_CALM: 'SlowDown',
  MISSING_SCOPE: 'AccessDenied',
  OBJECT_ALREADY_EXISTS: 'PreconditionFailed',
  OBJECT_NOT_FOUND: 'NoSuchKey',
  PAYLOAD_TOO_LARGE: 'EntityTooLarge',
  PERMISSION_DENIED: 'AccessDenied',
  PREFIX_NOT_ALLOWED: 'AccessDenied',
  PREFIX_REQUIRED: 'AccessDenied',
  PRIVATE_STORAGE_UNAVAILABLE: 'ServiceUnavailable',
  PUBLIC_STORAGE_UNAVAILABLE: 'ServiceUnavailable',
  RATE_LIMIT: 'SlowDown',
  RESOURCE_NOT_ALLOWED: 'AccessDenied',
  STORAGE_QUOTA_EXCEEDED: 'QuotaExceeded',
  TOO_MANY_CONCURRENT_UPLOADS: 'SlowDown',
  TOO_MANY_OPEN_UPLOADS: 'SlowDown',
  UPGRADE_REQUIRED: 'AccessDenied',
  UPLOAD_ABORTED: 'IncompleteBody',
  UPLOAD_BUSY: 'SlowDown',
  UPLOAD_NOT_FOUND: 'NoSuchUpload',
}

/** A refusal of the platform as one of the S3 wire. */
export function s3ErrorOf({
  code,
  message,
  retryAfterSeconds,
}: Pick<CodedError, 'code' | 'message' | 'retryAfterSeconds'>): S3Error {
  const own = ofPlatform[code] ?? 'InternalError'
  // It says why, and of a service that is unavailable whether the command may have been done.
  const shown = own === 'AccessDenied' || own === 'ServiceUnavailable' ? message : undefined
  return new S3Error(own, shown, {}, retryAfterSeconds)
}
