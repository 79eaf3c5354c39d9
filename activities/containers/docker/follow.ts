import type { Readable } from 'node:stream'
import type Docker from 'dockerode'
import { OutputLines } from '../lines.ts'
import { type FollowOptions, HostUnreachable, type OnPiece } from '../port.ts'
import { engineTime } from '../stamps.ts'
import { call, noLog, unless } from './calls.ts'

/** Follows the output of a container until its run ends or the signal aborts; a slow listener slows the engine down. */
export async function followLogs(
  docker: Docker,
  name: string,
  { tail = 0, after }: FollowOptions,
  onPiece: OnPiece,
  signal: AbortSignal,
): Promise<void> {
  const from = after === undefined ? { tail } : { since: engineTime(after + 1n) }
  const options = { follow: true, stdout: true, stderr: true, timestamps: true, ...from }
  const send = (abortSignal: AbortSignal) => docker.getContainer(name).logs({ ...options, abortSignal } as object)
  const stream = (await call(send).catch(unless(404, noLog))) as unknown as Readable | undefined
  if (!stream) return
  const stop = () => stream.destroy()
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  try {
    const lines = new OutputLines()
    for await (const chunk of stream) {
      for (const { stream, text, at } of lines.push(chunk)) {
        if (signal.aborted) return
        await onPiece(stream, text, at)
      }
    }
    for (const { stream, text, at } of lines.end()) await onPiece(stream, text, at)
  } catch (error) {
    if (!signal.aborted) throw new HostUnreachable('The log stream of the container engine broke.', { cause: error })
  } finally {
    signal.removeEventListener('abort', stop)
    stream.destroy()
  }
}
