import { once } from 'node:events'
import { Socket } from 'node:net'
import { answerJob, endWithParent, failedReply } from '../child-process/child-life.ts'
import { residentBytes } from '../child-process/memory.ts'
import { digestTree } from './digest.ts'
import { GrowingFiles } from './growing.ts'
import { archiveDescriptor, type FoundFiles, type PauseRequest, type SnapshotJob, type SnapshotReply } from './job.ts'
import { makeSnapshot } from './make.ts'
import { ArchiveOutput } from './output.ts'
import { SnapshotCorrupt, SnapshotRefused, type SnapshotTotals } from './port.ts'
import { readSnapshot } from './read.ts'
import { clearFolder, unpackSnapshot } from './unpack.ts'

// The process that makes or reads one snapshot. If the host is root, it reads as root, because programs may make files
// unreadable for themselves, but writes only to its pipe. It unpacks as the application's user.

async function carryOut(job: SnapshotJob): Promise<SnapshotTotals | null> {
  if (job.kind === 'make') return make(job)
  if (job.kind === 'verify') return readSnapshot(archiveDescriptor, async (_, content) => drain(content))
  if (job.kind === 'digest') return digestTree(job.folder)
  if (job.kind === 'unpack') return unpackSnapshot(archiveDescriptor, job.folder, job.owner)
  clearFolder(job.folder, job.owner)
  return null
}

async function make({ files, facts, isFilled }: SnapshotJob & { kind: 'make' }): Promise<SnapshotTotals> {
  const out = new ArchiveOutput(new Socket({ fd: archiveDescriptor, readable: false }))
  const send = (message: PauseRequest | FoundFiles) => process.send!(message)
  const request = (kind: PauseRequest['kind']) => send({ kind })
  const onFound = (files: number) => void send({ kind: 'found', files })
  const pause = async () => {
    request('pause')
    await once(process, 'message')
  }
  const growing = isFilled ? null : new GrowingFiles(take => process.on('message', take))
  const snapshot = await makeSnapshot({ files, facts, out, growing, pause, resume: () => request('resume'), onFound })
  await out.end()
  return snapshot
}

async function drain(content: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of content);
}

function failureReply(error: unknown): {
  kind: 'corrupt' | 'refused' | 'failed'
  code: string | null
  message: string
} {
  const permanent = error instanceof SnapshotCorrupt ? 'corrupt' : error instanceof SnapshotRefused && 'refused'
  return { ...failedReply(error), kind: permanent || 'failed' }
}

// A digest leaves no time to notice that the channel is closed.
endWithParent()
answerJob(async (job: SnapshotJob): Promise<SnapshotReply> => {
  process.umask(0)
  const outcome = await carryOut(job).then(snapshot => ({ kind: 'done' as const, snapshot }), failureReply)
  return { ...outcome, peakBytes: residentBytes(process.pid, 'peak') }
})
