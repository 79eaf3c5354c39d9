import { tmpdir } from 'node:os'
import type { ObjectStoreConfig } from '../../policy/config.ts'
import { filesystemStore } from './filesystem.ts'
import type { ObjectStore } from './port.ts'

interface OpenOptions {
  temporaryFolder?: string
  /** A remote store need not answer yet. */
  mayBeUnreachable?: boolean
}

/** The store that the settings name, ready for use. Rejects when it cannot be written to, or cannot be reached unless it `mayBeUnreachable`. */
export async function openObjectStore(
  config: ObjectStoreConfig,
  { temporaryFolder = tmpdir(), mayBeUnreachable = false }: OpenOptions = {},
): Promise<ObjectStore> {
  if (config.kind === 'filesystem') return filesystemStore(config.folder)
  // Loaded on demand: loading the client takes longer than everything else here.
  const { s3Store } = await import('./s3.ts')
  return s3Store(config, temporaryFolder, mayBeUnreachable)
}
