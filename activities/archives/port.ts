import type { FileHandle } from 'node:fs/promises'
import type { Owner } from '../../lib/folders/owner.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import type { ErrorCode } from '../../policy/errors.ts'

/** Result of an inspection, which writes nothing. */
export type Inspection =
  | { ok: true; config: AppConfigFile | null; entries: number; bytes: number }
  | { ok: false; code: ErrorCode; message: string }

export interface InspectOptions {
  /** Owner of the archive: one per account is inspected at a time. */
  account: string
  /** Further names of the configuration file at the archive's root, after berth.app and berth.config. */
  configNames: string[]
  /**
   * `required`: an archive without a configuration file is refused (create). `optional`: it is read when present, and may refer to
   * files that the application already has (commit). `ignored`: it is a file like any other (commit into a folder).
   */
  config: 'required' | 'optional' | 'ignored'
}

export interface UnpackOptions {
  /** Owner of the archive: one per account is unpacked at a time. */
  account?: string
  /** An archive that Berth itself created: links inside the tree are retained, and caps do not apply (contract 5.17). */
  own?: boolean
}

/** Zip archives, always handled in a child process with its own memory limit. */
export interface Archives {
  /** Reads the whole archive (inflate, CRC, caps, names, configuration). */
  inspect(file: FileHandle, options: InspectOptions): Promise<Inspection>
  /**
   * Unpacks into an empty folder that already belongs to `owner`, as that user and group, dropping the folders of contract 5.15.
   * Does not trust an earlier inspection. On failure leaves the folder empty and rejects with `ArchiveRefused`, or with
   * `NoSpaceLeft` (lib/folders/no-space-left.ts).
   */
  unpack(
    file: FileHandle,
    folder: string,
    owner: Owner | null,
    options?: UnpackOptions,
  ): Promise<{ entries: number; bytes: number }>
  close(): Promise<void>
}

export class ArchiveRefused extends Error {
  override name = 'ArchiveRefused'
  constructor(
    readonly code: ErrorCode,
    message: string,
  ) {
    super(message)
  }
}
