import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { foldersOf } from '../../../activities/databases/container.ts'
import { makeFolders } from '../../../activities/databases/settings-folder.ts'
import { loopVolumes } from '../../../activities/volumes/loop.ts'

/** The folders of one engine: below a folder of the machine, or on a file system of its own with so many MB, which can grow. */
export async function engineVolume(id: string, uid: number, diskMb: number | undefined) {
  const root = mkdtempSync(join(tmpdir(), 'berth-engine-'))
  chmodSync(root, 0o755)
  const disk = loopVolumes(root)
  if (diskMb !== undefined) await disk.ensure(id, diskMb, uid)
  const volume = diskMb === undefined ? root : disk.path(id)
  const folders = foldersOf(volume)
  mkdirSync(folders.data, { recursive: true, mode: 0o700 })
  chownSync(folders.data, uid, uid)
  await makeFolders(folders, uid)
  return {
    volume,
    folders,
    grow: (sizeMb: number) => disk.ensure(id, sizeMb, uid, 'before'),
    async remove(): Promise<void> {
      if (diskMb !== undefined) await disk.remove(id)
      rmSync(root, { recursive: true, force: true })
    },
  }
}

/** Takes all that is left on the disk of a volume. */
export function takeAllRoom(volume: string): void {
  for (let attempt = 0; statfsSync(volume).bavail > 0; attempt++)
    try {
      const { bavail, bsize } = statfsSync(volume)
      execFileSync('fallocate', ['--length', String(bavail * bsize), join(volume, `taken-${attempt}`)], {
        stdio: 'ignore',
      })
    } catch (error) {
      // What it cannot have as a whole, it has in part.
      if (attempt > 50) throw error
    }
}
