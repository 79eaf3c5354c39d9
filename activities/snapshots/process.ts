import { Readable } from 'node:stream'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { MiB } from '../../lib/bytes.ts'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { snapshotPauseSeconds } from '../../policy/patience.ts'
import { Pause } from './pause.ts'
import type { MadeSnapshot, SnapshotRequest, Snapshots } from './port.ts'
import { SnapshotChild } from './spawn.ts'

export interface SnapshotOptions {
  /** Resident size of a child at most. */
  memoryMb?: number
  /** How long a program may stand still; then it goes on and its snapshot fails. */
  pauseSeconds?: number
  /** Told how large a child was at most, in bytes. */
  observe?: (peakBytes: number) => void
}

/** Snapshots are made and read by child processes, one for each; see `Snapshots`. */
export function snapshots({
  memoryMb = 384,
  pauseSeconds = snapshotPauseSeconds,
  observe,
}: SnapshotOptions = {}): Snapshots {
  const limits = { memoryBytes: memoryMb * MiB, onPeak: observe }

  function make(request: SnapshotRequest) {
    const { files, facts, signal } = request
    const pause = new Pause(request, pauseSeconds)
    const child: SnapshotChild = new SnapshotChild(
      { kind: 'make', files, facts },
      {
        ...limits,
        archive: null,
        signal,
        onWish(wish) {
          const fail = (error: Error) => child.end(error)
          if (wish === 'pause') pause.begin(fail).then(() => child.goOn(), fail)
          else pause.end().catch(fail)
        },
      },
    )
    const made = finish(child, pause)
    return { body: bodyOf(child, made), made }
  }

  return {
    make,
    async verify(file, signal) {
      return (await new SnapshotChild({ kind: 'verify' }, { ...limits, archive: file.fd, signal }).done)!
    },
    async unpack(file, folder, owner, signal) {
      const child = new SnapshotChild({ kind: 'unpack', folder, owner }, { ...limits, archive: file.fd, signal })
      try {
        const held = (await child.done)!
        // What takes the place of an application's files has to be there after a power cut too.
        await runProcess('sync', ['-f', folder], { env: systemEnvironment })
        return held
      } catch (error) {
        const cleaning = { ...limits, archive: file.fd, signal: AbortSignal.timeout(clearSeconds * 1000) }
        if (!child.cleaned) await new SnapshotChild({ kind: 'clear', folder, owner }, cleaning).done
        throw error
      }
    },
  }
}

const clearSeconds = 600

async function finish(child: SnapshotChild, pause: Pause): Promise<MadeSnapshot> {
  try {
    const made = (await child.done)!
    await pause.end()
    return { ...made, pausedMs: pause.ms }
  } finally {
    await pause.end().catch(ignoreError('the error that led here is thrown, and the host watch unpauses'))
  }
}

/** Ends only when everything is well; whoever stops reading ends the child. */
function bodyOf(child: SnapshotChild, made: Promise<unknown>): Readable {
  const { output } = child
  const body = new Readable({
    highWaterMark: MiB,
    read: () => void output.resume(),
    destroy(error, done) {
      child.end(new Error('The reader of the snapshot has gone away.'))
      done(error)
    },
  })
  output.on('data', piece => body.push(piece) || output.pause())
  // Both directions have to be closed before the child's end is told.
  output.on('end', () => output.destroy())
  made.then(
    () => body.push(null),
    error => body.destroy(error),
  )
  return body
}
