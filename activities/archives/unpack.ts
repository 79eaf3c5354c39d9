import { closeSync, writeSync } from 'node:fs'
import { nameBytes } from '../../lib/folders/disk-names.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { staysInside } from '../../policy/archives/archive-names.ts'
import type { ArchiveRules } from '../../policy/archives/archive-rules.ts'
import { type ArchiveEntry, readDirectory } from './directory.ts'
import { contentOf, OutputMeter } from './inflate.ts'
import { ArchiveRefused } from './port.ts'

/** Unpacks into an empty folder. On failure leaves it empty and rejects (`ArchiveRefused`, or the error of the disk). */
export async function unpackArchive(
  fd: number,
  folder: Tree,
  rules: ArchiveRules,
): Promise<{ entries: number; bytes: number }> {
  const entries = await readDirectory(fd, rules)
  const meter = new OutputMeter(rules, entries)
  try {
    // Links come last: nothing is ever written while a link from the archive exists.
    for (const entry of entries) if (entry.kind !== 'link') await place(fd, entry, folder, meter)
    for (const entry of entries) if (entry.kind === 'link') await placeLink(fd, entry, folder, meter)
  } catch (error) {
    folder.clear()
    throw error
  }
  return { entries: entries.length, bytes: meter.bytes }
}

async function place(fd: number, entry: ArchiveEntry, folder: Tree, meter: OutputMeter): Promise<void> {
  const path = nameBytes(entry.path)
  if (entry.kind === 'folder') return folder.makeFolder(path, entry.mode)
  const file = folder.createFile(path, entry.mode)
  try {
    for await (const piece of contentOf(fd, entry, meter))
      for (let written = 0; written < piece.length; ) written += writeSync(file, piece, written)
  } finally {
    closeSync(file)
  }
}

async function placeLink(fd: number, entry: ArchiveEntry, folder: Tree, meter: OutputMeter): Promise<void> {
  const pieces: Buffer[] = []
  if (entry.size <= 4096) for await (const piece of contentOf(fd, entry, meter)) pieces.push(piece)
  const target = Buffer.concat(pieces).toString('utf8')
  if (target === '' || target.includes('\0') || !staysInside(entry.path, target))
    throw new ArchiveRefused('INVALID_FILE', `${entry.path} is a symbolic link that leads outside.`)
  folder.createLink(nameBytes(entry.path), target)
}
