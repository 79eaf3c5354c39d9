import type { FileHandle } from 'node:fs/promises'
import type { Owner } from '../../lib/folders/owner.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import type { ErrorCode } from '../../policy/errors.ts'

/** What the inspection of an archive found. Nothing was written. */
export type Inspection =
  | { ok: true; config: AppConfigFile | null; entries: number; bytes: number }
  | { ok: false; code: ErrorCode; message: string }

export interface InspectOptions {
  /** Whose archive it is: one of an account is inspected at a time. */
  account: string
  /** File names tried at the archive's root after berth.app and berth.config. */
  configNames: string[]
  /**
   * `required`: an archive without configuration file is refused (create). `optional`: it is read when it is there, and may speak of
   * files that the application has already (commit). `ignored`: it is a file like any other (commit into a folder).
   */
  config: 'required' | 'optional' | 'ignored'
}

export interface UnpackOptions {
  /** Whose archive it is: one of an account is unpacked at a time. */
  account?: string
  /** An archive that Berth itself created: links inside the tree are retained, and caps do not apply (contract 5.17). */
  own?: boolean
}

/** Zip archives, always handled in a child process with its own memory limit. */
export interface Archives {
  /** Reads the whole archive (inflate, CRC, caps, names, configuration). */
  inspect(file: FileHandle, options: InspectOptions): Promise<Inspection>
  /**
   * Unpacks into an empty folder, which belongs to `owner` already, as that user and group, dropping the folders of contract 5.15.
   * Trusts nothing that an earlier inspection said. Leaves the folder empty when anything is wrong, and rejects with
   * `ArchiveRefused`, or with `NoSpaceLeft` (activities/containers/port.ts).
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
