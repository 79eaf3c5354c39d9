import { GiB, KiB, MiB } from '../../lib/bytes.ts'
import type { Limit } from '../limits.ts'

/** Limits of the S3 wire (contract 7.46). Sizes in bytes. */
export const s3Limits = {
  /** Of an object in one PutObject, UploadPart or form. */
  putBytes: 5 * GiB,
  /** Of an object in parts. */
  uploadBytes: 10 * GiB,
  parts: 10_000,
  /** Of every part but the last one. */
  minPartBytes: 5 * MiB,
  /** Uploads in parts that an account may have open. */
  openUploads: 1000,
  /** Entries of a page of any listing. */
  pageEntries: 1000,
  deletedKeys: 1000,
  xmlBytes: 2 * MiB,
  /** Each of these of a document counts as one more request. */
  documentUnitBytes: 64 * KiB,
  /** Fields of a form upload, names and values; and their number. */
  formBytes: 20 * KiB,
  form: { files: 1, fields: 100, parts: 110, headerPairs: 100 },
  /** Names and values of `x-amz-meta-` headers. */
  metadataBytes: 2 * KiB,
  /** Values of all headers that are stored with an object, tags excepted. */
  headerBytes: 4 * KiB,
  tags: 10,
  tagKeyCharacters: 128,
  tagValueCharacters: 256,
  /** Extra buckets of an account. */
  extraBuckets: 100,
} as const

/** What single requests cost in addition to the request itself (contract 9.4). */
export const s3Counts = {
  copies: [{ allow: 20, perSeconds: 10, by: 'user' }],
  // Bytes that UploadPartCopy reads and stores again: its client sends none. The largest object, whose 2,048 smallest parts are each
  // rounded up to whole MiB; about 100 MiB a second on average.
  copiedMiB: [{ allow: 12_288, perSeconds: 100, by: 'user' }],
  deletedKeys: [{ allow: 2000, perSeconds: 10, by: 'user' }],
} as const satisfies Record<string, readonly Limit[]>

/** Requests of an account, by the figure of its plan (contract 9.9). */
export const s3Requests = (allow: number): readonly Limit[] => [{ allow, perSeconds: 10, by: 'user' }]
