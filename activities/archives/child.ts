import { accessSync, constants, openSync } from 'node:fs'
import { Tree } from '../../lib/folders/tree.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import { ownRules, uploadRules } from '../../policy/archives/archive-rules.ts'
import { answerJob, becomeOwner, failedReply } from '../child-process/child-life.ts'
import { residentBytes } from '../child-process/memory.ts'
import { inspectArchive } from './inspect.ts'
import type { ArchiveJob, ArchiveReady, ArchiveReply, ArchiveSource } from './job.ts'
import { ArchiveRefused } from './port.ts'
import { unpackArchive } from './unpack.ts'

// The process that reads untrusted archives: started with an empty environment, does one job and ends.

async function carryOut(job: ArchiveJob): Promise<{ entries: number; bytes: number; config?: AppConfigFile | null }> {
  const archive = open(job.archive)
  if (job.kind === 'inspect') return inspectArchive(archive, job)
  const folder = new Tree(job.folder)
  becomeOwner(job.owner, [folder.root])
  if (job.kind === 'clear') {
    folder.clear()
    return { entries: 0, bytes: 0 }
  }
  if (folder.list().length > 0) throw new Error('The folder to unpack into is not empty.')
  return unpackArchive(archive, folder, job.own ? ownRules : uploadRules)
}

function open(source: ArchiveSource): number {
  if (source === null) return -1
  if ('inherited' in source) return source.inherited
  return openSync(`${parentsDescriptors}/${source.parents}`, constants.O_RDONLY)
}

function failureReply(error: unknown): { kind: 'refused' | 'failed'; code: string | null; message: string } {
  return { ...failedReply(error), kind: error instanceof ArchiveRefused ? 'refused' : 'failed' }
}

const parentsDescriptors = `/proc/${process.ppid}/fd`

function reachesParent(): boolean {
  try {
    accessSync(parentsDescriptors, constants.R_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

answerJob(async (job: ArchiveJob) => {
  const outcome = await carryOut(job).then(result => ({ config: null, ...result, kind: 'done' }), failureReply)
  return { ...outcome, peakBytes: residentBytes(process.pid, 'peak') } as ArchiveReply
})
process.send!({ kind: 'ready', reachesParent: reachesParent() } satisfies ArchiveReady, () => {})
