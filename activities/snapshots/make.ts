import { statfsSync } from 'node:fs'
import { MiB } from '../../lib/bytes.ts'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { Tree } from '../../lib/folders/tree.ts'
import { type Copied, TreeCopy, zipEntry } from './copy.ts'
import type { GrowingFiles } from './growing.ts'
import { manifestName } from './job.ts'
import { comparePaths, firstLine, lastLine, type ManifestLine, Tally, writeLine } from './manifest.ts'
import type { ArchiveOutput } from './output.ts'
import { type Fill, levels, packStream } from './pack.ts'
import type { ArchiveFacts, SnapshotTotals } from './port.ts'
import { centralRecord, dataDescriptor, endRecords, localHeader, type ZipEntry } from './zip.ts'

export interface Making {
  files: string
  facts: ArchiveFacts
  out: ArchiveOutput
  /** What another process still writes into the folder; null = nothing. */
  growing: GrowingFiles | null
  /** Resolves once the program is frozen. */
  pause(): Promise<void>
  resume(): void
  /** Called after each batch of files, folders and links. */
  onFound(files: number): void
}

/** Below this, the rest is copied while the program is frozen. Bytes in the archive. */
const frozenPassBytes = 32 * MiB
const furtherPasses = 3

/** Sparse files, and files with several names, can exceed the size of their disk. */
const timesOfDisk = 2

/** Writes the whole archive. What changed during a pass is copied again, the last time while the program is frozen. */
export async function makeSnapshot(making: Making): Promise<SnapshotTotals> {
  const { files, facts, out, growing } = making
  const tree = new Tree(files, { readOnly: true })
  const disk = statfsSync(files)
  const copy = new TreeCopy(tree, out, timesOfDisk * disk.blocks * disk.bsize, making.onFound)
  // Nothing writes to a dump, or to what an install step made.
  const isStill = !('appId' in facts)
  if (growing) for await (const file of growing) await copy.growing(file, levels.fastest)
  if (isStill) await copyStill(copy)
  const pausedMs = isStill ? 0 : await copyLive(copy, making)
  tree.close()
  return finish(copy.copied, facts, pausedMs, out)
}

/** Resolves to how long that took, in ms. */
async function copyStill(copy: TreeCopy): Promise<number> {
  const startedAt = performance.now()
  await copy.pass({ since: Number.POSITIVE_INFINITY, level: levels.fastest })
  return Math.round(performance.now() - startedAt)
}

/** Resolves to how long the program was frozen, in ms. */
async function copyLive(copy: TreeCopy, { files, pause, resume }: Making): Promise<number> {
  const pass = async () => copy.pass({ since: await cleanPages(files), level: levels.usual })
  let last = await pass()
  for (let more = furtherPasses; more > 0 && last > frozenPassBytes; more--) {
    const changed = await pass()
    if (changed >= last) more = 0
    last = changed
  }
  await pause()
  const pausedMs = await copyStill(copy)
  resume()
  return pausedMs
}

/** Writes dirty pages to the disk; resolves to the time before that, in ms since 1970. */
async function cleanPages(folder: string): Promise<number> {
  const startedAt = Date.now()
  await runProcess('sync', ['-f', folder], { env: systemEnvironment })
  return startedAt
}

/** Writes manifest, directory and end. Both lists have the same order, so that they can be compared line by line. */
async function finish(
  copied: ReadonlyMap<string, Copied>,
  facts: ArchiveFacts,
  pausedMs: number,
  out: ArchiveOutput,
): Promise<SnapshotTotals> {
  const paths = [...copied.keys()].sort(comparePaths)
  const tally = new Tally()
  let total: SnapshotTotals | undefined
  function* lines(): Generator<string> {
    yield firstLine(facts)
    for (const [index, path] of paths.entries()) {
      const line = lineOf(path, copied.get(path)!)
      tally.add(line)
      yield writeLine(line, index === 0)
    }
    total = tally.total(pausedMs)
    yield lastLine(total)
  }
  const manifest = await writeManifest(lines(), out)
  const start = out.position
  for (const path of paths) await out.write(centralRecord(zipEntry(path, copied.get(path)!)))
  await out.write(centralRecord(manifest))
  await out.write(endRecords(paths.length + 1, start, out.position - start))
  return total!
}

function lineOf(path: string, { kind, mode, size, mtime, sha256 }: Copied): ManifestLine {
  return { path, kind, mode, size, mtime, sha256 }
}

async function writeManifest(lines: Generator<string>, out: ArchiveOutput): Promise<ZipEntry> {
  const name = Buffer.from(manifestName)
  const traits = { name, mode: 0o100644, mtime: Date.now(), deflated: true, described: true, wide: true }
  const entry = { ...traits, crc: 0, size: 0, packed: 0, offset: out.position }
  await out.write(localHeader(entry))
  const { sha256: _, ...packed } = await packStream(texts(lines), levels.usual, out)
  const whole = { ...entry, ...packed }
  await out.write(dataDescriptor(whole))
  return whole
}

/** Concatenates texts as bytes. */
function texts(lines: Generator<string>): Fill {
  let rest: Buffer = Buffer.alloc(0)
  return into => {
    let length = 0
    while (length < into.length) {
      if (rest.length === 0) {
        const { value, done } = lines.next()
        if (done) break
        rest = Buffer.from(value)
      }
      const copied = rest.copy(into, length)
      rest = rest.subarray(copied)
      length += copied
    }
    return length
  }
}
