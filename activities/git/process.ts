import { type Readable, Writable } from 'node:stream'
import { GiB, KiB } from '../../lib/bytes.ts'
import { type ChildProcess, type Environment, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { credentialDescriptor } from './config.ts'
import { eachLine } from './progress.ts'

/** What every git process of one fetch shares. */
export interface GitScope {
  /** Program. */
  git: string
  /** Folder of the bare repository, and the only home that git knows. */
  repository: string
  owner: Owner | null
  /** Open folder that receives the files, at descriptor 4. */
  folder: number
  /** Largest single file that may be written. */
  fileBytes: number
  /** Text for the credential helper; never in an argument or the environment. */
  credential: string | null
  /** Takes secrets out of what git writes. */
  scrub: (text: string) => string
  /** Ends the whole process group. */
  signal: AbortSignal
}

export interface GitRun {
  input?: string | Buffer
  /** Takes each piece of output; throwing ends the process. */
  onOutput?: (piece: Buffer) => void
  onProgress?: (line: string) => void
}

export interface GitEnd {
  code: number
  output: Buffer
  /** The last lines of what it said, without secrets. */
  said: string
}

export const folderDescriptor = 4
const addressSpaceKb = GiB / KiB
const linesKept = 40

/** Runs git without any configuration but the repository's own. Resolves however it ended; rejects when it was ended from here. */
export function runGit(scope: GitScope, args: readonly string[], run: GitRun = {}): Promise<GitEnd> {
  return new Promise((resolve, reject) => {
    if (scope.signal.aborted) return reject(scope.signal.reason)
    const child = start(scope, args)
    const pieces: Buffer[] = []
    const lines: string[] = []
    let failure: { error: unknown } | null = null
    const end = (error: unknown) => {
      failure ??= { error }
      endGroup(child)
    }
    const abort = () => end(scope.signal.reason)
    scope.signal.addEventListener('abort', abort, { once: true })
    child.stdout!.on('data', (piece: Buffer) => {
      try {
        if (run.onOutput) run.onOutput(piece)
        else pieces.push(piece)
      } catch (error) {
        end(error)
      }
    })
    eachLine(child.stderr!, raw => {
      const line = scope.scrub(raw)
      lines.push(line)
      lines.splice(0, lines.length - linesKept)
      run.onProgress?.(line)
    })
    child.once('error', end)
    child.once('close', code => {
      scope.signal.removeEventListener('abort', abort)
      if (failure) reject(failure.error)
      else resolve({ code: code ?? 1, output: Buffer.concat(pieces), said: lines.join('\n') })
    })
    give(child.stdin, run.input ?? '')
    give(child.stdio[credentialDescriptor], scope.credential ?? '')
  })
}

/** A limited shell that becomes git: address space in KB, file size in blocks of 512 bytes, no core dump. */
function start({ git, repository, owner, folder, fileBytes }: GitScope, args: readonly string[]): ChildProcess {
  const limits = `umask 022; ulimit -c 0; ulimit -v ${addressSpaceKb}; ulimit -f ${Math.ceil(fileBytes / 512)}; exec "$@"`
  return startProcess('/bin/sh', ['-c', limits, 'sh', git, ...args], {
    cwd: repository,
    env: environment(repository),
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', folder],
    detached: true, // a process group of its own, with git's helpers in it
    ...(owner && process.getuid?.() === 0 ? owner : {}),
  })
}

function environment(repository: string): Environment {
  return {
    ...systemEnvironment,
    HOME: repository,
    XDG_CONFIG_HOME: repository,
    GIT_DIR: repository,
    GIT_WORK_TREE: `${repository}/tree`,
    GIT_INDEX_FILE: `${repository}/index`,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_SYSTEM: '/dev/null',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_ALLOW_PROTOCOL: 'http:https',
    GIT_PROTOCOL_FROM_USER: '0',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '/bin/false',
    GIT_LFS_SKIP_SMUDGE: '1',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_OPTIONAL_LOCKS: '0',
  }
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // it has ended already
  }
}

function give(stream: Readable | Writable | null | undefined, text: string | Buffer): void {
  if (!(stream instanceof Writable)) return
  stream.on('error', () => {}) // git may end without reading it
  stream.end(text)
}
