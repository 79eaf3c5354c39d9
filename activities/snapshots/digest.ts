import { createHash, hash } from 'node:crypto'
import * as fs from 'node:fs'
import { KiB } from '../../lib/bytes.ts'
import { nameText, untrustedFileFlags } from '../../lib/folders/disk-names.ts'
import { Tree } from '../../lib/folders/tree.ts'
import { manifestName } from './job.ts'
import { type ManifestLine, Tally } from './manifest.ts'
import { SnapshotRefused, type SnapshotTotals } from './port.ts'
import { unreadableRefused, walk } from './walk.ts'

const buffer = Buffer.allocUnsafeSlow(256 * KiB)

/** The totals of a folder to which nothing writes, as an archive of it would have them. Rejects when a file vanishes or cannot be read. */
export function digestTree(folder: string): SnapshotTotals {
  const tree = new Tree(folder, { readOnly: true })
  try {
    if (tree.stat(manifestName)) throw new SnapshotRefused(`${manifestName} would not be in the digest.`)
    const tally = new Tally()
    for (const [path, stats] of walk(tree)) tally.add(lineOf(tree, path, stats))
    return tally.total(0)
  } finally {
    tree.close()
  }
}

function lineOf(tree: Tree, path: string, stats: fs.Stats): ManifestLine {
  const line = { path, mode: stats.mode & 0o777, mtime: stats.mtimeMs }
  if (stats.isDirectory()) return { ...line, kind: 'folder', size: 0, sha256: '' }
  if (stats.isFile()) return { ...line, kind: 'file', ...contentOf(tree, path) }
  const target = fs.readlinkSync(tree.at(path), 'buffer')
  return { ...line, kind: 'link', size: target.length, sha256: hash('sha256', target) }
}

/** Most files fit into the buffer: they are read by one call and hashed by another. */
function contentOf(tree: Tree, path: string): Pick<ManifestLine, 'size' | 'sha256'> {
  const fd = openedOf(tree, path)
  try {
    if (!fs.fstatSync(fd).isFile()) throw new Error(`${nameText(path)} is no longer a file.`)
    let size = fs.readSync(fd, buffer)
    if (size < buffer.length) return { size, sha256: hash('sha256', buffer.subarray(0, size)) }
    const sha256 = createHash('sha256').update(buffer)
    for (let read = 1; read > 0; size += read) {
      read = fs.readSync(fd, buffer)
      sha256.update(buffer.subarray(0, read))
    }
    return { size, sha256: sha256.digest('hex') }
  } finally {
    fs.closeSync(fd)
  }
}

function openedOf(tree: Tree, path: string): number {
  try {
    return fs.openSync(tree.at(path), untrustedFileFlags)
  } catch (error) {
    throw unreadableRefused(error, path)
  }
}
