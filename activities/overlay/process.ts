import { type OverlayLimits, overlayLimits } from '../../policy/apps/overlay.ts'
import { failureOf, JobChild } from '../child-process/job-child.ts'
import { folderPath } from '../placement/process.ts'
import { placingSlots } from '../placement/slots.ts'
import { type OverlayJob, OverlayRefused, type OverlayReply, type OverlayRequest, type OverlayTotals } from './port.ts'

/**
 * Creates `releases/<n>/build` in a child process with the application's own rights. Rejects with `OverlayRefused` for files that
 * cannot be copied at all, `NoSpaceLeft`, or the signal's reason. The limits apply from when the child gets a slot.
 */
export async function layReleaseOver(
  input: OverlayRequest,
  signal: AbortSignal,
  limits: OverlayLimits = overlayLimits,
): Promise<OverlayTotals> {
  const leave = await placingSlots.enterUntil(input.account ?? input.volume, signal)
  return runChild(input, signal, limits).finally(leave)
}

async function runChild(input: OverlayRequest, signal: AbortSignal, limits: OverlayLimits): Promise<OverlayTotals> {
  const request = { ...input, path: folderPath(input.path) }
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
