import { statfsSync } from 'node:fs'
import { MiB } from '../../lib/bytes.ts'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { Tree } from '../../lib/folders/tree.ts'
import { type Copied, TreeCopy, zipEntry } from './copy.ts'
import { manifestName } from './job.ts'
import { comparePaths, firstLine, lastLine, type ManifestLine, Tally, writeLine } from './manifest.ts'
import type { ArchiveOutput } from './output.ts'
import { type Fill, packStream } from './pack.ts'
import type { MadeSnapshot, SnapshotFacts } from './port.ts'
import { centralRecord, dataDescriptor, endRecords, localHeader, type ZipEntry } from './zip.ts'

export interface Making {
  files: string
  facts: SnapshotFacts
  out: ArchiveOutput
  /** Resolves once the program stands still. */
  pause(): Promise<void>
  resume(): void
}

/** So much may be left to be copied while the program stands still, when copying it before is of use. Bytes in the archive. */
const fewBytes = 32 * MiB
const furtherPasses = 3

/** Files with holes, and files of several names, hold more than their disk does. */
const timesOfDisk = 2

/** Of the deflate levels the one that `zip` takes, and the quickest, while a program waits. */
const levels = { running: 6, paused: 1 } as const

/** Writes the whole archive. What changed while it was copied is copied again, at last while the program stands still. */
export async function makeSnapshot({ files, facts, out, pause, resume }: Making): Promise<MadeSnapshot> {
  const tree = new Tree(files, { readOnly: true })
  const disk = statfsSync(files)
  const copy = new TreeCopy(tree, out, timesOfDisk * disk.blocks * disk.bsize)
  const pass = async () => copy.pass({ since: await cleanPages(files), level: levels.running })
  let last = await pass()
  for (let more = furtherPasses; more > 0 && last > fewBytes; more--) {
    const changed = await pass()
    if (changed >= last) more = 0
    last = changed
  }
  await pause()
  const paused = performance.now()
  await copy.pass({ since: Number.POSITIVE_INFINITY, level: levels.paused })
  const pausedMs = Math.round(performance.now() - paused)
  resume()
  tree.close()
  return finish(copy.copied, facts, pausedMs, out)
}

/** Resolves to when it was asked, in ms since 1970. */
async function cleanPages(folder: string): Promise<number> {
  const asked = Date.now()
  await runProcess('sync', ['-f', folder], { env: systemEnvironment })
  return asked
}

/** Manifest, directory and end. Both lists stand in the same order, so that they can be compared line by line. */
async function finish(
  copied: ReadonlyMap<string, Copied>,
  facts: SnapshotFacts,
  pausedMs: number,
  out: ArchiveOutput,
): Promise<MadeSnapshot> {
  const paths = [...copied.keys()].sort(comparePaths)
  const tally = new Tally()
  let total: MadeSnapshot | undefined
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
  const { sha256: _, ...packed } = await packStream(texts(lines), levels.running, out)
  const whole = { ...entry, ...packed }
  await out.write(dataDescriptor(whole))
  return whole
}

/** Texts one after the other, as bytes. */
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
