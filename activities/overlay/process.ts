import { type OverlayLimits, overlayLimits } from '../../policy/apps/overlay.ts'
import { failureOf, JobChild } from '../child-process/job-child.ts'
import { folderPath } from '../placement/process.ts'
import { placingTurns } from '../placement/turns.ts'
import { type Overlaid, type OverlayJob, OverlayRefused, type OverlayReply, type OverlayRequest } from './port.ts'

/**
 * Makes `releases/<n>/build` by a child process with the application's own rights. Rejects with `OverlayRefused` for what cannot be
 * copied at all, `NoSpaceLeft`, or the signal's reason. The limits begin once the child has a place.
 */
export async function layReleaseOver(
  asked: OverlayRequest,
  signal: AbortSignal,
  limits: OverlayLimits = overlayLimits,
): Promise<Overlaid> {
  const leave = await placingTurns.enterUntil(asked.account ?? asked.volume, signal)
  return copied(asked, signal, limits).finally(leave)
}

async function copied(asked: OverlayRequest, signal: AbortSignal, limits: OverlayLimits): Promise<Overlaid> {
  const request = { ...asked, path: folderPath(asked.path) }
  const child = new JobChild<OverlayJob, OverlayReply>('overlay', { what: "Copying the application's files", signal })
  const { seconds, memoryBytes } = limits
  const reply = await child.run(
    { request, limits },
    {
      seconds,
      late: () => new OverlayRefused(`Copying the application's files took over ${seconds} s.`),
      memoryBytes,
      large: () => new OverlayRefused('The application has too many files to be copied.'),
    },
  )
  if (reply.kind === 'done') return { entries: reply.entries, bytes: reply.bytes }
  if (reply.kind === 'refused') throw new OverlayRefused(reply.message)
  throw failureOf(reply, 'The application has no disk space left for a copy of its files to install from.')
}
