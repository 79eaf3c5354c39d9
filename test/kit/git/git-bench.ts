import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FetchRefused, FetchRequest, Git } from '../../../activities/git/port.ts'
import { noCommit } from './git-events.ts'

export interface Fetched {
  folder: string
  /** Null when it went well. */
  error: (Partial<FetchRefused> & Error) | null
  result: { files: number; bytes: number } | null
  /** Every path in the folder. */
  paths: string[]
  lines: string[]
  /** Downloads that were left behind. */
  remains: string[]
}

export interface GitBench {
  /** Where the adapter under test keeps its downloads. */
  scratch: string
  owner: FetchRequest['owner']
  fetch(git: Git, request: Partial<FetchRequest>, signal?: AbortSignal): Promise<Fetched>
  close(): Promise<void>
}

/** Fetches into folders of its own, each with an owner where the tests may choose one. */
export async function gitBench(): Promise<GitBench> {
  const base = await mkdtemp(join(tmpdir(), 'berth-git-bench-'))
  const scratch = join(base, 'scratch')
  const owner = process.getuid?.() === 0 ? { uid: 10_003, gid: 10_003 } : null
  await mkdir(scratch)
  await chmod(base, 0o711)
  return {
    scratch,
    owner,
    async fetch(git, request, signal = new AbortController().signal) {
      const folder = await mkdtemp(join(base, 'into-'))
      if (owner) await chown(folder, owner.uid, owner.gid)
      const lines: string[] = []
      const whole = { ...defaults, folder, owner, ...request }
      const outcome = await git
        .fetch(whole, line => lines.push(line), signal)
        .then(
          result => ({ result, error: null }),
          (error: Error) => ({ result: null, error }),
        )
      const paths = (await readdir(folder, { recursive: true })).sort()
      return { folder, ...outcome, paths, lines, remains: await readdir(scratch) }
    },
    close: () => rm(base, { recursive: true, force: true }),
  }
}

const defaults = {
  url: '',
  branch: 'main',
  commit: noCommit,
  token: null,
  maxBytes: 20 * 1024 ** 2,
  timeoutSeconds: 20,
  allowedHosts: [],
}

/** Processes whose arguments name this folder or server, with their whole command line and environment. */
export async function processesOf(name: string): Promise<{ pid: number; text: string }[]> {
  const found: { pid: number; text: string }[] = []
  for (const pid of (await readdir('/proc')).filter(entry => /^\d+$/.test(entry))) {
    const read = (file: string) => readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => '')
    const [line, environment] = await Promise.all([read('cmdline'), read('environ')])
    if (Number(pid) !== process.pid && line.includes('git') && `${line}${environment}`.includes(name))
      found.push({ pid: Number(pid), text: `${line}\n${environment}`.replaceAll('\0', ' ') })
  }
  return found
}
