import { type Readable, Writable } from 'node:stream'
import { GiB, KiB } from '../../lib/bytes.ts'
import { type ChildProcess, type Environment, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { credentialDescriptors } from './config.ts'
import { eachLine } from './progress.ts'

/** Options shared by the git processes of one fetch. */
export interface GitScope {
  /** The program. */
  git: string
  /** Folder of the bare repository, also git's home folder. */
  repository: string
  owner: Owner | null
  /** Descriptor of the open folder that receives the files; git gets it as descriptor 5. */
  folder: number
  /** Max size of a single written file. */
  fileBytes: number
  /** Text for the credential helper; never in an argument or the environment. */
  credential: string | null
  /** The same for the helper of the proxy. */
  proxyCredential: string | null
  /** Removes secrets from git's output. */
  scrub: (text: string) => string
  /** Ends the whole process group. */
  signal: AbortSignal
}

export interface GitRun {
  input?: string | Buffer
  /** Receives each piece of output; throwing ends the process. */
  onOutput?: (piece: Buffer) => void
  onProgress?: (line: string) => void
}

export interface GitEnd {
  code: number
  output: Buffer
  /** The last lines of stderr, without secrets. */
  stderr: string
}

export const folderDescriptor = 5
const addressSpaceKb = GiB / KiB
const maxLines = 40

/** Runs git with only our configuration. Resolves with any exit code; rejects when this process ended it. */
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
      lines.splice(0, lines.length - maxLines)
      run.onProgress?.(line)
    })
    child.once('error', end)
    child.once('close', code => {
      scope.signal.removeEventListener('abort', abort)
      if (failure) reject(failure.error)
      else resolve({ code: code ?? 1, output: Buffer.concat(pieces), stderr: lines.join('\n') })
    })
    feed(child.stdin, run.input ?? '')
    feed(child.stdio[credentialDescriptors.server], scope.credential ?? '')
    feed(child.stdio[credentialDescriptors.proxy], scope.proxyCredential ?? '')
  })
}

/** A shell with limits that execs git: address space in KB, file size in blocks of 512 bytes, no core dump. */
function start({ git, repository, owner, folder, fileBytes }: GitScope, args: readonly string[]): ChildProcess {
  const limits = `umask 022; ulimit -c 0; ulimit -v ${addressSpaceKb}; ulimit -f ${Math.ceil(fileBytes / 512)}; exec "$@"`
  return startProcess('/bin/sh', ['-c', limits, 'sh', git, ...args], {
    cwd: repository,
    env: environment(repository),
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe', folder],
    detached: true, // its own process group, which includes git's helpers
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

function feed(stream: Readable | Writable | null | undefined, text: string | Buffer): void {
  if (!(stream instanceof Writable)) return
  stream.on('error', () => {}) // git may end without reading it
  stream.end(text)
}
