import { once } from 'node:events'
import { Socket } from 'node:net'
import { answerJob, failedReply } from '../child-process/child-life.ts'
import { residentBytes } from '../child-process/memory.ts'
import { archiveDescriptor, type SnapshotJob, type SnapshotReply, type SnapshotWish } from './job.ts'
import { makeSnapshot } from './make.ts'
import { ArchiveOutput } from './output.ts'
import { type MadeSnapshot, SnapshotCorrupt, SnapshotRefused } from './port.ts'
import { readSnapshot } from './read.ts'
import { clearFolder, unpackSnapshot } from './unpack.ts'

// The process that makes or reads one snapshot. Where the host is root it reads as root, for programs may close files to
// themselves, but writes to nothing but its pipe; it unpacks as the application's user.

async function carryOut(job: SnapshotJob): Promise<MadeSnapshot | null> {
  if (job.kind === 'make') return make(job)
  if (job.kind === 'verify') return readSnapshot(archiveDescriptor, async (_, content) => drain(content))
  if (job.kind === 'unpack') return unpackSnapshot(archiveDescriptor, job.folder, job.owner)
  clearFolder(job.folder, job.owner)
  return null
}

async function make({ files, facts }: SnapshotJob & { kind: 'make' }): Promise<MadeSnapshot> {
  const out = new ArchiveOutput(new Socket({ fd: archiveDescriptor, readable: false }))
  const wish = (kind: SnapshotWish['kind']) => process.send!({ kind } satisfies SnapshotWish)
  const pause = async () => {
    wish('pause')
    await once(process, 'message')
  }
  const made = await makeSnapshot({ files, facts, out, pause, resume: () => wish('resume') })
  await out.end()
  return made
}

async function drain(content: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of content);
}

function problem(error: unknown): { kind: 'corrupt' | 'refused' | 'failed'; code: string | null; message: string } {
  const lasting = error instanceof SnapshotCorrupt ? 'corrupt' : error instanceof SnapshotRefused && 'refused'
  return { ...failedReply(error), kind: lasting || 'failed' }
}

answerJob(async (job: SnapshotJob): Promise<SnapshotReply> => {
  process.umask(0)
  const outcome = await carryOut(job).then(snapshot => ({ kind: 'done' as const, snapshot }), problem)
  return { ...outcome, peakBytes: residentBytes(process.pid, 'peak') }
})
