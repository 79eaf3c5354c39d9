import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { S3Config } from '../../../activities/objects/s3.ts'

interface S3Server {
  run(): Promise<AddressInfo>
  close(): Promise<void>
}

// The package has no types.
const S3rver = createRequire(import.meta.url)('s3rver') as new (options: object) => S3Server

/** A real S3 endpoint on loopback, and the settings that reach it. */
export async function startS3(): Promise<{ config: S3Config; close: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'berth-s3-'))
  const server = new S3rver({ address: '127.0.0.1', port: 0, silent: true, directory, vhostBuckets: false })
  const { port } = await server.run()
  const endpoint = `http://127.0.0.1:${port}`
  const config = {
    kind: 's3',
    endpoint,
    bucket: 'berth',
    region: 'us-east-1',
    accessKeyId: 'S3RVER',
    secretAccessKey: 'S3RVER',
  } as const
  return {
    config,
    async close() {
      await server.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
