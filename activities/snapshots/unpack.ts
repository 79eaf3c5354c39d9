import * as fs from 'node:fs'
import { constants } from 'node:fs'
import { KiB } from '../../lib/bytes.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { Tree } from '../../lib/folders/tree.ts'
import { becomeOwner } from '../child-process/child-life.ts'
import type { ManifestLine } from './manifest.ts'
import { SnapshotCorrupt, type SnapshotTotals } from './port.ts'
import { readSnapshot } from './read.ts'

const fileFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/** Blocks of zeros of this size are left as holes. */
const holeBytes = 64 * KiB
const zeros = Buffer.alloc(holeBytes)
const maxTargetBytes = 4096

/** Unpacks into an empty folder, with the rights of its owner. On failure leaves it empty and rejects. */
export async function unpackSnapshot(fd: number, folder: string, owner: Owner | null): Promise<SnapshotTotals> {
  const tree = own(folder, owner)
  if (tree.list().length > 0) throw new Error('The folder to unpack into is not empty.')
  const folders: ManifestLine[] = []
  try {
    const totals = await readSnapshot(fd, async (line, content) => {
      if (line.kind === 'file') await makeFile(tree, line, content)
      else if (line.kind === 'link') await makeLink(tree, line, content)
      else {
        fs.mkdirSync(tree.at(line.path), 0o700)
        folders.push(line)
      }
    })
    // Only now: folders may be unwritable for their owner, and adding files would change their times.
    for (const { path, mode, mtime } of folders.reverse()) {
      fs.chmodSync(tree.at(path), mode)
      fs.utimesSync(tree.at(path), mtime / 1000, mtime / 1000)
    }
    return totals
  } catch (error) {
    tree.clear()
    throw error
  } finally {
    tree.close()
  }
}

/** Removes everything in a folder, with the rights of its owner. */
export function clearFolder(folder: string, owner: Owner | null): void {
  const tree = own(folder, owner)
  tree.clear()
  tree.close()
}

function own(folder: string, owner: Owner | null): Tree {
  const tree = new Tree(folder)
  becomeOwner(owner, [tree.root])
  return tree
}

async function makeFile(tree: Tree, line: ManifestLine, content: AsyncIterable<Buffer>): Promise<void> {
  const fd = fs.openSync(tree.at(line.path), fileFlags, 0o600)
  try {
    let at = 0
    for await (const piece of content) at = write(fd, piece, at)
    fs.ftruncateSync(fd, at)
    fs.fchmodSync(fd, line.mode)
    fs.futimesSync(fd, line.mtime / 1000, line.mtime / 1000)
  } finally {
    fs.closeSync(fd)
  }
}

/** Returns the offset of the next piece. Blocks of zeros are not written. */
function write(fd: number, piece: Buffer, at: number): number {
  for (let from = 0; from < piece.length; from += holeBytes) {
    const part = piece.subarray(from, from + holeBytes)
    if (part.equals(zeros)) continue
    for (let written = 0; written < part.length; )
      written += fs.writeSync(fd, part, written, part.length - written, at + from + written)
  }
  return at + piece.length
}

async function makeLink(
  tree: Tree,
  { path, size, mtime }: ManifestLine,
  content: AsyncIterable<Buffer>,
): Promise<void> {
  if (size > maxTargetBytes) throw new SnapshotCorrupt(`${path} has a longer target than a link may have.`)
  const pieces: Buffer[] = []
  for await (const piece of content) pieces.push(piece)
  fs.symlinkSync(Buffer.concat(pieces), tree.at(path))
  fs.lutimesSync(tree.at(path), mtime / 1000, mtime / 1000)
}
