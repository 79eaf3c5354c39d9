import {
  type ChecksumAlgorithm,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  type CompleteMultipartUploadCommandInput,
  CreateMultipartUploadCommand,
  type CreateMultipartUploadCommandInput,
  ListPartsCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import type { S3Account } from './account.ts'

const Bucket = 'private'

/** Opens an upload in parts in the bucket `private`; returns its id. */
export async function opened(
  { send }: S3Account,
  Key: string,
  more: Partial<CreateMultipartUploadCommandInput> = {},
): Promise<string> {
  return (await send(new CreateMultipartUploadCommand({ Bucket, Key, ...more }))).UploadId!
}

/** Sends a part; its checksum is a CRC32 unless another algorithm is named. */
export const sent = (
  { send }: S3Account,
  Key: string,
  UploadId: string,
  PartNumber: number,
  Body: string | Buffer,
  more: { ChecksumAlgorithm?: ChecksumAlgorithm } = {},
) => send(new UploadPartCommand({ Bucket, Key, UploadId, PartNumber, Body, ...more }))

/** Completes an upload; parts that are numbers have the ETag that is listed. */
export async function completed(
  { send }: S3Account,
  Key: string,
  UploadId: string,
  parts: readonly (number | CompletedPart)[],
  more: Partial<CompleteMultipartUploadCommandInput> = {},
) {
  const { Parts: stored } = parts.some(part => typeof part === 'number')
    ? await send(new ListPartsCommand({ Bucket, Key, UploadId }))
    : { Parts: [] }
  const Parts = parts.map(part =>
    typeof part === 'number'
      ? { PartNumber: part, ETag: stored?.find(({ PartNumber }) => PartNumber === part)?.ETag ?? 'unknown' }
      : part,
  )
  return send(new CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload: { Parts }, ...more }))
}
