import { type OverlayLimits, overlayLimits } from '../../policy/apps/overlay.ts'
import { giveWayLater, startChild } from '../child-process/child-program.ts'
import { watchResident } from '../child-process/memory.ts'
import { NoSpaceLeft } from '../containers/port.ts'
import { folderPath } from '../placement/process.ts'
import { type Overlaid, OverlayRefused, type OverlayReply, type OverlayRequest } from './port.ts'

/**
 * Makes `releases/<n>/build` by a child process with the application's own rights. Rejects with `OverlayRefused` for what cannot be
 * copied at all, `NoSpaceLeft`, or the signal's reason.
 */
export function layReleaseOver(
  asked: OverlayRequest,
  signal: AbortSignal,
  limits: OverlayLimits = overlayLimits,
): Promise<Overlaid> {
  const request = { ...asked, path: folderPath(asked.path) }
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const child = startChild('overlay', ['ignore', 'ignore', 'inherit', 'ipc'])
    const stopWaiting = giveWayLater(child)
    let reply: OverlayReply | null = null
    let why: unknown
    const end = (reason: unknown) => {
      why ??= reason
      child.kill('SIGKILL')
    }
    const cancel = () => end(signal.reason)
    signal.addEventListener('abort', cancel, { once: true })
    const late = () => end(new OverlayRefused(`Copying the application's files took over ${limits.seconds} s.`))
    const deadline = setTimeout(late, limits.seconds * 1000)
    const unwatch =
      child.pid === undefined
        ? () => {}
        : watchResident(child.pid, limits.memoryBytes, () =>
            end(new OverlayRefused('The application has too many files to be copied.')),
          )
    child.once('error', error => end(error))
    child.once('message', message => {
      reply = message as OverlayReply
    })
    // Not at 'exit': its last message may still be on the way then.
    child.once('close', (code, killed) => {
      stopWaiting()
      clearTimeout(deadline)
      unwatch()
      signal.removeEventListener('abort', cancel)
      if (why) reject(why)
      else if (reply?.kind === 'done') resolve({ entries: reply.entries, bytes: reply.bytes })
      else
        reject(
          reply
            ? problem(reply)
            : new Error(`Copying the application's files was cut off by ${killed ?? `exit code ${code}`}.`),
        )
    })
    child.send({ request, limits }, () => {})
  })
}

function problem(reply: Exclude<OverlayReply, { kind: 'done' }>): Error {
  if (reply.kind === 'refused') return new OverlayRefused(reply.message)
  if (reply.code === 'ENOSPC' || reply.code === 'EDQUOT')
    return new NoSpaceLeft('The application has no disk space left for a copy of its files to install from.')
  return Object.assign(new Error(reply.message), { code: reply.code })
}
