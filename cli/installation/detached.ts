import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { startProcess } from '../../lib/child-process.ts'
import { AlreadyRunning, runningSupervisor } from '../../workers/supervisor/supervisor-lock.ts'
import { sayOnStderr } from '../terminal/terminal.ts'
import { checkout, type DataPlace } from './installation.ts'

interface Message {
  say?: string
  summary?: string
}

/** What a start gets on the command line, besides where it runs. */
export interface UpFlags {
  adopt?: boolean
  ai?: boolean
}

/** The same as words of the command. */
export const upWords = ({ adopt, ai }: UpFlags): string[] => [...(adopt ? ['--adopt'] : []), ...(ai ? ['--ai'] : [])]

/** Starts the supervisor in the background, shows its progress, and returns once everything answers. */
export async function upDetached({ dataDir, runFolder, logFolder, note }: DataPlace, flags: UpFlags): Promise<void> {
  const running = runningSupervisor(runFolder)
  if (running) throw new AlreadyRunning(running)
  if (note) sayOnStderr(note)
  const path = join(logFolder, 'supervisor.log')
  const log = openSync(path, 'a', 0o640)
  const args = [join(checkout, 'dist/cli/main.js'), 'up', ...upWords(flags)]
  const child = startProcess(process.execPath, [...process.execArgv, ...args], {
    detached: true,
    stdio: ['ignore', log, log, 'ipc'],
    env: { ...process.env, BERTH_DATA: dataDir }, // the settings
  })
  closeSync(log)
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', code => reject(new Error(`Berth did not start (exit code ${code}). Its log: ${path}`)))
    child.on('message', ({ say, summary }: Message) => {
      if (say !== undefined) sayOnStderr(say)
      if (summary === undefined) return
      console.log(summary)
      resolve()
    })
  })
  child.removeAllListeners('exit')
  child.disconnect()
  child.unref()
}
