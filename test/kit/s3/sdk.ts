import { S3Client } from '@aws-sdk/client-s3'
import type { TestApi, TestUser } from '../actors/api.ts'

/** The S3 pair of a user's key, and a client of Amazon's SDK that uses it, with its default checksums. */
export async function s3Of(api: TestApi, user: TestUser, key = user.key): Promise<S3Actor> {
  const { body } = await api.blobAs(key).get('/v1/s3/credentials')
  const credentials = {
    accessKeyId: body.response.access_key_id as string,
    secretAccessKey: body.response.secret_access_key as string,
  }
  const client = new S3Client({
    endpoint: api.s3Url,
    region: 'auto',
    forcePathStyle: true,
    credentials,
    maxAttempts: 1,
  })
  return { client, credentials, send: client.send.bind(client) }
}

export interface S3Actor {
  client: S3Client
  credentials: { accessKeyId: string; secretAccessKey: string }
  send: S3Client['send']
}
