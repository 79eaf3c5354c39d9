import { accessSync, constants, openSync } from 'node:fs'
import type { AppConfigFile } from '../policy/app-config.ts'
import { ownRules, uploadRules } from '../policy/archive-rules.ts'
import { HostileFolder } from './archive.folder.ts'
import { inspectArchive } from './archive.inspect.ts'
import type { ArchiveJob, ArchiveReady, ArchiveReply, ArchiveSource, Owner } from './archive.job.ts'
import { residentBytes } from './archive.memory.ts'
import { ArchiveRefused } from './archive.ts'
import { unpackArchive } from './archive.unpack.ts'

// The process that reads strangers' archives: started with an empty environment, does one job and ends.

async function carryOut(job: ArchiveJob): Promise<{ entries: number; bytes: number; config?: AppConfigFile | null }> {
  const archive = open(job.archive)
  if (job.kind === 'inspect') return inspectArchive(archive, job)
  const folder = new HostileFolder(job.folder)
  becomeOwner(job.owner, folder)
  if (job.kind === 'clear') {
    folder.clear()
    return { entries: 0, bytes: 0 }
  }
  if (!folder.empty) throw new Error('The folder to unpack into is not empty.')
  return unpackArchive(archive, folder, job.own ? ownRules : uploadRules)
}

function open(source: ArchiveSource): number {
  if (source === null) return -1
  if ('inherited' in source) return source.inherited
  return openSync(`${parentsDescriptors}/${source.parents}`, constants.O_RDONLY)
}

/**
 * From here on with the rights of the application only. The folder must be the application's already: root would else be
 * led, by a link further up, to a folder of somebody else.
 */
function becomeOwner(owner: Owner | null, folder: HostileFolder): void {
  if (owner === null || process.getuid!() !== 0) return
  if (folder.owner.uid !== owner.uid) throw new Error(`The folder to unpack into does not belong to user ${owner.uid}.`)
  process.setgroups!([])
  process.setgid!(owner.gid)
  process.setuid!(owner.uid)
}

function problem(error: unknown): { kind: 'refused' | 'failed'; code: string | null; message: string } {
  const { code, message } = error as NodeJS.ErrnoException
  return { kind: error instanceof ArchiveRefused ? 'refused' : 'failed', code: code ?? null, message }
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

process.once('disconnect', () => process.exit(1))
process.once('message', async (job: ArchiveJob) => {
  const outcome = await carryOut(job).then(found => ({ config: null, ...found, kind: 'done' }), problem)
  const reply = { ...outcome, peakBytes: residentBytes(process.pid, 'peak') } as ArchiveReply
  process.send!(reply, () => process.exit(0))
})
process.send!({ kind: 'ready', reachesParent: reachesParent() } satisfies ArchiveReady, () => {})
