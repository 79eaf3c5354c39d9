import { createHash } from 'node:crypto'
import { nameText } from '../../lib/folders/disk-names.ts'
import { ownRules } from '../../policy/archives/archive-rules.ts'
import type { ArchiveEntry } from '../archives/directory.ts'
import { contentOf, OutputMeter } from '../archives/inflate.ts'
import { ArchiveRefused } from '../archives/port.ts'
import { SnapshotDirectory } from './directory.ts'
import { manifestName } from './job.ts'
import { comparePaths, type ManifestLine, readLine, readTotal, Tally } from './manifest.ts'
import { SnapshotCorrupt, type SnapshotTotals } from './port.ts'

/** Handles one path of a snapshot. It must read the content to its end, where damage is detected. */
export type Use = (line: ManifestLine, content: AsyncIterable<Buffer>) => Promise<void>

/**
 * Reads a whole snapshot and compares directory and manifest line by line: the same paths, each once, with the same kinds,
 * modes, sizes and contents. Rejects with `SnapshotCorrupt`, naming the path.
 */
export async function readSnapshot(fd: number, use: Use): Promise<SnapshotTotals> {
  try {
    return await compare(fd, use)
  } catch (error) {
    if (error instanceof ArchiveRefused) throw new SnapshotCorrupt(error.message)
    if (error instanceof SyntaxError) throw new SnapshotCorrupt('The manifest of the snapshot is damaged.')
    throw error
  }
}

async function compare(fd: number, use: Use): Promise<SnapshotTotals> {
  const directory = new SnapshotDirectory(fd)
  const manifest = await lastOf(directory.entries())
  if (manifest?.path !== manifestName) throw new SnapshotCorrupt('The snapshot has no manifest.')
  const lines = manifestLines(fd, directory.located(manifest))
  const tally = new Tally()
  let before: string | null = null
  for await (const entry of directory.entries()) {
    const text = (await lines.next()).value ?? ''
    const line = readLine(text)
    if (!line || entry.path === manifestName) {
      for await (const _ of lines); // its checksum is checked at its end
      return checkEnd(line, entry, line ? null : readTotal(text), tally)
    }
    if (before !== null && comparePaths(before, line.path) >= 0)
      corrupt(line.path, 'is in the manifest at the wrong position')
    compareTraits(line, entry)
    tally.add(line)
    await use(line, checkedContent(fd, line, directory.located(entry)))
    before = line.path
  }
  throw new SnapshotCorrupt('The snapshot has no manifest.')
}

function checkEnd(
  line: ManifestLine | null,
  entry: ArchiveEntry,
  recorded: SnapshotTotals | null,
  tally: Tally,
): SnapshotTotals {
  if (line) corrupt(line.path, 'is missing in the archive')
  if (entry.path !== manifestName) corrupt(entry.path, 'is missing in the manifest')
  const total = tally.total(recorded?.pausedMs ?? 0)
  if (total.digest !== recorded?.digest || total.files !== recorded.files || total.bytes !== recorded.bytes)
    throw new SnapshotCorrupt('The manifest of the snapshot does not match its own digest.')
  return total
}

function compareTraits(line: ManifestLine, entry: ArchiveEntry): void {
  if (line.path !== entry.path)
    if (comparePaths(line.path, entry.path) < 0) corrupt(line.path, 'is missing in the archive')
    else corrupt(entry.path, 'is missing in the manifest')
  if (line.kind !== entry.kind || line.mode !== entry.mode)
    corrupt(line.path, 'has another kind or mode than its manifest says')
  if (line.size !== entry.size) corrupt(line.path, `has ${entry.size} bytes instead of ${line.size}`)
}

async function* checkedContent(fd: number, line: ManifestLine, entry: ArchiveEntry): AsyncGenerator<Buffer> {
  if (line.kind === 'folder') return
  const hash = createHash('sha256')
  const named = { ...entry, path: nameText(entry.path) }
  for await (const piece of contentOf(fd, named, new OutputMeter(ownRules, []))) {
    hash.update(piece)
    yield piece
  }
  if (hash.digest('hex') !== line.sha256) corrupt(line.path, 'is damaged: its content is not what the manifest says')
}

/** The manifest's lines from the second on, without line ends. The first one describes the application, not its files. */
async function* manifestLines(fd: number, entry: ArchiveEntry): AsyncGenerator<string, undefined> {
  let rest = ''
  let facts = true
  for await (const piece of contentOf(fd, entry, new OutputMeter(ownRules, []))) {
    const lines = (rest + piece.toString('latin1')).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      if (!facts && line !== '') yield Buffer.from(line, 'latin1').toString('utf8')
      facts = false
    }
  }
}

async function lastOf(entries: AsyncIterable<ArchiveEntry>): Promise<ArchiveEntry | null> {
  let last: ArchiveEntry | null = null
  for await (const entry of entries) last = entry
  return last
}

function corrupt(path: string, what: string): never {
  throw new SnapshotCorrupt(`${nameText(path)} ${what}.`)
}
