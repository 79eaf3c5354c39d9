import { fork } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { startTicks } from '../../../lib/process-stat.ts'
import { overlayLimits } from '../../../policy/apps/overlay.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'

/** A file that takes minutes to read, and no space. */
const endless = 500 * 1024 ** 3
const facts = { appId: 'a', name: 'a', takenAt: 0 }

/** By the folder of the child, and where it has several the kind of its job. */
const jobs: Record<string, (volume: string) => unknown> = {
  archives: () => null,
  overlay: volume => ({
    request: { volume, release: 2, path: '', owner: null },
    limits: { ...overlayLimits, bytes: Number.MAX_SAFE_INTEGER },
  }),
  placement: volume => ({ act: 'place', request: { volume, release: 2, path: '', whole: false, owner: null } }),
  'snapshots digest': volume => ({ kind: 'digest', folder: join(volume, 'files') }),
  'snapshots make': volume => ({ kind: 'make', files: join(volume, 'files'), facts, isFilled: true }),
}

for (const [name, jobOf] of Object.entries(jobs)) {
  test.serial(`${name}: a child ends with its parent, even in the middle of its work`, async t => {
    const volume = ownFolder(t)
    for (const folder of ['files', 'releases/2/source']) {
      fs.mkdirSync(join(volume, folder), { recursive: true })
      const path = join(volume, folder, 'endless')
      fs.writeFileSync(path, '')
      fs.truncateSync(path, endless)
    }
    const job = jobOf(volume)
    const parent = fork(
      new URL('../../kit/children/child-parent.ts', import.meta.url),
      [name.split(' ')[0]!, job ? JSON.stringify(job) : ''],
      {
        execArgv: ['--import', 'tsx'],
      },
    )
    const [pid] = (await once(parent, 'message')) as [number]
    const born = startTicks(pid)
    t.teardown(() => startTicks(pid) === born && process.kill(pid, 'SIGKILL'))
    // It reads, or waits for its job.
    const reads = () => fs.readdirSync(`/proc/${pid}/fd`).some(fd => linkOf(pid, fd).endsWith('/endless'))
    if (job) await comesTrue(async () => reads())
    parent.kill('SIGKILL')
    await comesTrue(async () => startTicks(pid) !== born)
    t.pass()
  })
}

function linkOf(pid: number, fd: string): string {
  try {
    return fs.readlinkSync(`/proc/${pid}/fd/${fd}`)
  } catch {
    return '' // closed meanwhile
  }
}
