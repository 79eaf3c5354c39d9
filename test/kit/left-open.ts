import { ChildProcess } from 'node:child_process'
import { readdirSync, readlinkSync } from 'node:fs'
import { Server, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { MessagePort } from 'node:worker_threads'

/** Node lists its handles here; the documented `getActiveResourcesInfo` has only their kinds. */
const { _getActiveHandles: activeHandles } = process as unknown as { _getActiveHandles(): unknown[] }

const descriptorOf = (handle: unknown): number => (handle as { _handle?: { fd?: number } })._handle?.fd ?? -1

/** Input, output and errors of this process itself. */
const isStandard = (handle: unknown): boolean => handle instanceof Socket && [0, 1, 2].includes(descriptorOf(handle))

/** A thread that waits for work, and that the process does not wait for: it ends with it. */
const isIdleThread = (handle: unknown): boolean =>
  handle instanceof MessagePort && !(handle as MessagePort & { hasRef(): boolean }).hasRef()

function withCanceller(handle: unknown): string {
  if (handle instanceof Server) return `server on ${JSON.stringify(handle.address())}`
  if (handle instanceof ChildProcess) return `process ${handle.pid}: ${handle.spawnargs.slice(-4).join(' ')}`
  if (handle instanceof Socket) {
    const { localPort, remotePort, remoteAddress } = handle
    return remotePort ? `socket ${localPort} to ${remoteAddress} ${remotePort}` : `pipe ${descriptorOf(handle)}`
  }
  return (handle as object).constructor.name
}

/** A program of children is bundled once for a process, and has no name (lib/bundled-program.ts). */
const bundled = /\/berth-[0-9a-f-]{36}\.cjs \(deleted\)$/

/** Where the loader of TypeScript keeps what it has compiled, and what `./berth test` has transpiled for all files. */
const compiled = /\/tsx-\d+(\/|$)|\/transpiled\/(code|compiled)$/

/** Files and folders that this process has open, but for those of the system, of Node itself, and of what loads the tests. */
function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap(fd => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`)
      return path.startsWith('/') &&
        !/^\/(dev|proc|sys)(\/|$)/.test(path) &&
        !bundled.test(path) &&
        !compiled.test(path)
        ? [`open: ${path}`]
        : []
    } catch {
      return [] // the one that the folder itself was read by
    }
  })
}

/** What keeps this process from ending, or was opened and not closed, in words. What lets it end, as an idle connection of `fetch` does, is none. */
function openNow(): string[] {
  const handles = activeHandles
    .call(process)
    .filter(handle => !isStandard(handle) && !isIdleThread(handle))
    .map(withCanceller)
  // Requests stand there too, and for each timer that is waited for its kind.
  const others = process.getActiveResourcesInfo().filter(kind => !/(Wrap|MessagePort|Worker)$/.test(kind))
  return [...handles, ...others, ...openFiles()].sort()
}

/**
 * Files here close whatever they open, and fail when they do not; what others leave is listed in the output of the run. Not held to it yet:
 * api/v2, of which realtime leaves a connection and slow-deliveries a timer; activities, not all of which were seen to end; and the
 * folders whose processes are other ones than the test's.
 */
export const closesAll = (file: string): boolean =>
  /\/test\/((db|edge|lib|policy|workers|workflows)\/|api\/(?!v2\/)|left-open\.)/.test(file)

/** Like `openNow`, for what has not ended after a number of seconds. */
export async function leftOpen(seconds: number): Promise<string[]> {
  for (const deadline = performance.now() + seconds * 1000; ; await sleep(20)) {
    const found = openNow()
    if (found.length === 0 || performance.now() > deadline) return found
  }
}
