import { KiB, MiB } from '../lib/bytes.ts'

/** Limits of one request. */
export const requestCaps = {
  /** Bytes of one uploaded file (contract 9.5). */
  fileBytes: 100 * MiB,
  /** Bytes of the newest output that is returned (contract 4.13). */
  logBytes: MiB,
  /** Characters of a folder of an application. */
  folderCharacters: 256,
  /** Objects (contract 9.5). */
  objectsListed: 1000,
  objectsUpdated: 50,
  objectsDeleted: 100,
} as const

/** Up to this size a body is read completely, and compared with its checksum, before the answer starts. */
export const wholeBodyBytes = 64 * KiB

/** Limits of an account, on every plan. */
export const accountCaps = {
  /** Shares that have neither expired nor been revoked (contract 9.5). */
  shares: 1000,
  /** Concurrent uploads of archives and files of applications, over all processes (contract 9.5). */
  appUploads: 16,
  /** Megabytes of the plan that must be free for a new application (contract 4.2). */
  minFreeMemoryMb: 256,
  /** Max memory that the volumes of an account are made for, as a multiple of the memory of its plan (contract 11.3). */
  diskPerMemory: 2,
} as const

/** Limits of an application, on every plan. */
export const appCaps = {
  /** Queued deploys; the running one does not count (contract 9.5). */
  waitingDeploys: 20,
} as const

/** Range and default of what callers choose for links and upload tokens; times in seconds (contract 9.5). */
export const linkTerms = {
  downloadSeconds: { min: 60, max: 86_400, default: 3600 },
  shareSeconds: { min: 60, max: 2_592_000, default: 86_400 },
  shareDownloads: { min: 1, max: 10_000 },
  sharePasswordCharacters: { min: 8, max: 128 },
  tokenSeconds: { min: 60, max: 3600, default: 900 },
  tokenUses: { min: 1, max: 100, default: 1 },
} as const
