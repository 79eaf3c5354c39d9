import { access, mkdir, readdir, rm } from 'node:fs/promises'
import { pause } from '../lib/async/loop.ts'
import { startTicks } from '../lib/process-stat.ts'

/** A folder in which a process makes something; its name has that, the process, and when the process started. */
const working = /^\.making-(.+)-(\d+)-(\d+)$/
const pauseMs = 200
/** The same for all processes where the system has no /proc. */
const startOf = (pid: number): string => startTicks(pid) ?? '0'

/**
 * Resolves once `folder/name` exists. Calls `make` with an empty folder for its work, unless the file is there already or another
 * process is making it, which is waited for: a start, its host and tests need the same files at the same time. What killed
 * processes have left is removed.
 */
export async function createOnce(folder: string, name: string, make: (work: string) => Promise<void>): Promise<void> {
  const work = `${folder}/.making-${name}-${process.pid}-${startOf(process.pid)}`
  while (!(await exists(`${folder}/${name}`))) {
    await mkdir(folder, { recursive: true })
    const isAlone = (await makers(folder, name)).length === 0 && (await isCreated(work))
    if (isAlone)
      try {
        // A process that sees another folder after creating its own withdraws, so that two never continue.
        if ((await makers(folder, name)).length === 1) return await make(work)
      } finally {
        await rm(work, { recursive: true, force: true })
      }
    await pause(pauseMs * (1 + Math.random()))
  }
}

/** The folders of living processes that make this; those of others are removed. */
async function makers(folder: string, name: string): Promise<string[]> {
  const living: string[] = []
  for (const entry of await readdir(folder)) {
    const [, what, pid, ticks] = working.exec(entry) ?? []
    if (what === undefined) continue
    if (startOf(Number(pid)) !== ticks) await rm(`${folder}/${entry}`, { recursive: true, force: true })
    else if (what === name) living.push(entry)
  }
  return living
}

/** False when another call of this process has it. */
function isCreated(work: string): Promise<boolean> {
  return mkdir(work).then(
    () => true,
    error => {
      if (error.code === 'EEXIST') return false
      throw error
    },
  )
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
