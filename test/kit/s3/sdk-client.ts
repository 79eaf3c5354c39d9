import { readFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { S3Client } from '@aws-sdk/client-s3'
import type { ExecutionContext } from 'ava'
import type { S3Access } from './gateway.ts'

/** The SDK set up as on the first page of its documentation, with its own defaults for checksums and retries. */
export function sdkClient(t: ExecutionContext, access: S3Access): S3Client {
  const { url: endpoint, region, accessKeyId, secretAccessKey, caFile } = access
  const agent = caFile && new Agent({ ca: readFileSync(caFile), keepAlive: true })
  const client = new S3Client({
    endpoint,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
    requestHandler: { connectionTimeout: 10_000, requestTimeout: 60_000, ...(agent && { httpsAgent: agent }) },
  })
  t.teardown(() => client.destroy())
  return client
}
