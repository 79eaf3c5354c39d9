import { createHash, type Hash } from 'node:crypto'
import { nameText } from '../../lib/folders/disk-names.ts'
import type { ArchiveFacts, SnapshotTotals } from './port.ts'

// A JSON document with one line per path, so that it is written and read without ever being whole in memory.
// The lines have the order of `comparePaths`, like the entries of the archive's directory.

export interface ManifestLine {
  /** Each character is one byte (lib/folders/tree.ts). */
  path: string
  kind: 'file' | 'folder' | 'link'
  /** Permission bits. */
  mode: number
  /** Bytes of the content, or of a link's target. 0 for a folder. */
  size: number
  /** ms since 1970. */
  mtime: number
  /** In hex; empty for a folder. */
  sha256: string
}

/** The order of a walk: a folder's content follows it directly. 0 = the same path. */
export function comparePaths(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let at = 0; at < length; at++) {
    const difference = rank(a.charCodeAt(at)) - rank(b.charCodeAt(at))
    if (difference !== 0) return difference
  }
  return a.length - b.length
}

const slash = 0x2f
const rank = (code: number): number => (code === slash ? 0 : code)

/** Counts files and bytes and computes the digest, line by line. The digest ignores times. */
export class Tally {
  files = 0
  bytes = 0
  readonly #digest: Hash = createHash('sha256')

  add({ path, kind, mode, size, sha256 }: ManifestLine): void {
    if (kind !== 'folder') this.files++
    this.bytes += size
    this.#digest
      .update(`${kind} ${mode.toString(8)} ${sha256} `)
      .update(path, 'latin1')
      .update('\0')
  }

  /** Call once, at the end. */
  total(pausedMs: number): SnapshotTotals {
    return { files: this.files, bytes: this.bytes, digest: this.#digest.digest('hex'), pausedMs }
  }
}

export function firstLine(facts: ArchiveFacts): string {
  const of = 'databaseId' in facts ? 'database' : 'installKey' in facts ? 'install' : 'application'
  return `{"berthSnapshot":1,"${of}":${JSON.stringify(facts)},"entries":[\n`
}

export function writeLine({ path, mode, ...rest }: ManifestLine, first: boolean): string {
  const text = nameText(path)
  const name = Buffer.from(text).equals(Buffer.from(path, 'latin1'))
    ? { path: text }
    : { pathBytes: Buffer.from(path, 'latin1').toString('base64') }
  return `${first ? '' : ',\n'}${JSON.stringify({ ...name, mode: mode.toString(8), ...rest })}`
}

export function lastLine(total: SnapshotTotals): string {
  return `\n],"total":${JSON.stringify(total)}}\n`
}

/** Parses a line of the list; null for the line that ends it. Throws a SyntaxError for anything else. */
export function readLine(line: string): ManifestLine | null {
  if (line.startsWith(']')) return null
  const { path, pathBytes, mode, ...rest } = JSON.parse(line.replace(/,$/, ''))
  const bytes = path === undefined ? Buffer.from(pathBytes, 'base64') : Buffer.from(path)
  return { ...rest, path: bytes.toString('latin1'), mode: Number.parseInt(mode, 8) }
}

export function readTotal(line: string): SnapshotTotals {
  return JSON.parse(line.replace(/^\],/, '{')).total
}
