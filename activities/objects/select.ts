import { tmpdir } from 'node:os'
import type { ObjectStoreConfig } from '../../policy/config.ts'
import { filesystemStore } from './filesystem.ts'
import type { ObjectStore } from './port.ts'

interface OpenOptions {
  temporaryFolder?: string
  /** One on another machine need not answer yet. */
  mayBeAway?: boolean
}

/** The store that the settings name, ready for use. Rejects when it cannot be reached, unless it `mayBeAway`, or written to. */
export async function openObjectStore(
  config: ObjectStoreConfig,
  { temporaryFolder = tmpdir(), mayBeAway = false }: OpenOptions = {},
): Promise<ObjectStore> {
  if (config.kind === 'filesystem') return filesystemStore(config.folder)
  // Loaded when needed: the client costs more at start than everything else here.
  const { s3Store } = await import('./s3.ts')
  return s3Store(config, temporaryFolder, mayBeAway)
}
