import { Readable } from 'node:stream'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { MiB } from '../../lib/bytes.ts'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { snapshotPauseSeconds } from '../../policy/timeouts.ts'
import { Pause } from './pause.ts'
import type { Filling, SnapshotRequest, Snapshots, SnapshotTotals } from './port.ts'
import { SnapshotChild } from './spawn.ts'

export interface SnapshotOptions {
  /** Max resident size of a child. */
  memoryMb?: number
  /** Max time that a program may be frozen; then it resumes and its snapshot fails. */
  pauseSeconds?: number
  /** Receives the peak size of each child, in bytes. */
  observe?: (peakBytes: number) => void
}

/** Makes and reads each snapshot in its own child process; see `Snapshots`. */
export function snapshots({
  memoryMb = 384,
  pauseSeconds = snapshotPauseSeconds,
  observe,
}: SnapshotOptions = {}): Snapshots {
  const limits = { memoryBytes: memoryMb * MiB, onPeak: observe }

  function make(request: SnapshotRequest) {
    const { files, facts, fill, signal } = request
    const pause = new Pause(request, pauseSeconds)
    const child: SnapshotChild = new SnapshotChild(
      { kind: 'make', files, facts, isFilled: !fill },
      {
        ...limits,
        archive: null,
        signal,
        onPauseRequest(kind) {
          const fail = (error: Error) => child.end(error)
          if (kind === 'pause') pause.begin(fail).then(() => child.confirmPause(), fail)
          else pause.end().catch(fail)
        },
      },
    )
    const totals = finish(child, pause)
    if (fill) fillFor(child, fill)
    return { body: bodyOf(child, totals), totals }
  }

  return {
    make,
    async digest(folder, signal) {
      return (await new SnapshotChild({ kind: 'digest', folder }, { ...limits, archive: 'ignore', signal }).done)!
    },
    async verify(file, signal) {
      return (await new SnapshotChild({ kind: 'verify' }, { ...limits, archive: file.fd, signal }).done)!
    },
    async unpack(file, folder, owner, signal, { isKept } = { isKept: true }) {
      const child = new SnapshotChild({ kind: 'unpack', folder, owner }, { ...limits, archive: file.fd, signal })
      try {
        const snapshot = (await child.done)!
        // A folder that replaces the application's files must survive a power cut.
        if (isKept) await runProcess('sync', ['-f', folder], { env: systemEnvironment })
        return snapshot
      } catch (error) {
        const cleaning = { ...limits, archive: file.fd, signal: AbortSignal.timeout(clearSeconds * 1000) }
        if (!child.cleaned) await new SnapshotChild({ kind: 'clear', folder, owner }, cleaning).done
        throw error
      }
    },
  }
}

const clearSeconds = 600

/** Tells the child of what it copies meanwhile. */
function fillFor(child: SnapshotChild, fill: NonNullable<SnapshotRequest['fill']>): void {
  const filling: Filling = {
    begins: (path, isPacked) => child.tell({ kind: 'begins', path, isPacked }),
    ends: path => child.tell({ kind: 'ends', path }),
  }
  fill(filling).then(
    () => child.tell({ kind: 'filled' }),
    error => child.end(error),
  )
}

async function finish(child: SnapshotChild, pause: Pause): Promise<SnapshotTotals> {
  try {
    const totals = (await child.done)!
    await pause.end()
    return { ...totals, pausedMs: pause.ms }
  } finally {
    await pause.end().catch(ignoreError('the error that led here is thrown, and the host watch unpauses'))
  }
}

/** The stream of the archive. It ends only after success; a reader that stops ends the child. */
function bodyOf(child: SnapshotChild, totals: Promise<unknown>): Readable {
  const { output } = child
  const body = new Readable({
    highWaterMark: MiB,
    read: () => void output.resume(),
    destroy(error, done) {
      child.end(new Error('The reader of the snapshot has stopped.'))
      done(error)
    },
  })
  output.on('data', piece => body.push(piece) || output.pause())
  // Both directions must be closed before the child's end is reported.
  output.on('end', () => output.destroy())
  totals.then(
    () => body.push(null),
    error => body.destroy(error),
  )
  return body
}
