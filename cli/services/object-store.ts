import { mkdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { ProcessSpec } from '../../workers/supervisor/supervised-process.ts'
import type { Installation } from '../installation/installation.ts'
import { accepts } from './proxy.ts'
import { MissingPart } from './system-packages.ts'

/** The small S3 server of an installation that is set to use one; null where segments are in a folder or in a store elsewhere. */
export function ownObjectStore({ config, settings, dataDir, ports }: Installation): ProcessSpec | null {
  if (config.objectStore.kind !== 's3' || settings.S3_STORE_ENDPOINT !== config.objectStore.endpoint) return null
  return s3rverProcess(join(dataDir, 's3rver'), ports.S3RVER_PORT, config.objectStore.bucket)
}

/** A small S3 server for development (`OBJECT_STORE=s3rver`), on loopback, with its one bucket. */
function s3rverProcess(folder: string, port: number, bucket: string): ProcessSpec {
  const require = createRequire(import.meta.url)
  let script: string
  try {
    script = join(dirname(require.resolve('s3rver/package.json')), 'bin/s3rver.js')
  } catch {
    throw new MissingPart('OBJECT_STORE=s3rver needs the development packages: npm ci')
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return {
    name: 'object-store',
    command: async () => ({
      command: process.execPath,
      args: [
        script,
        '--directory',
        folder,
        '--address',
        '127.0.0.1',
        '--port',
        String(port),
        '--configure-bucket',
        bucket,
      ],
      env: { PATH: process.env.PATH },
    }),
    ready: () => accepts('127.0.0.1', port),
    readySeconds: 20,
    stopSignal: 'SIGTERM',
    graceSeconds: 5,
    needs: [],
  }
}
