import type { Readable } from 'node:stream'
import type Docker from 'dockerode'
import { HostUnreachable } from '../port.ts'
import { call, unless } from './calls.ts'

/** Output of a container from now on, in the engine's frames. The engine buffers nothing: a slow reader here blocks the program. */
export async function attach(container: Docker.Container): Promise<Readable> {
  const stream = await call(abortSignal =>
    container.attach({ stream: true, hijack: true, stdout: true, stderr: true, abortSignal }),
  )
  return stream as unknown as Readable
}

/** See `ContainerHost.readOutput`. */
export async function readOutput(
  docker: Docker,
  name: string,
  onPiece: (piece: Uint8Array) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const container = docker.getContainer(name)
  const stream = await attach(container).catch(unless(404, 409))
  if (!stream) return
  const stop = () => stream.destroy()
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  try {
    // For a container that has ended, the engine waits for its next start: the connection would stay open for ever.
    if (!(await isRunning(container))) return
    for await (const piece of stream) await onPiece(piece as Buffer)
  } catch (error) {
    if (!signal.aborted) throw new HostUnreachable('The output stream of the container engine broke.', { cause: error })
  } finally {
    signal.removeEventListener('abort', stop)
    stream.destroy()
  }
}

async function isRunning(container: Docker.Container): Promise<boolean> {
  const info = await call(abortSignal => container.inspect({ abortSignal })).catch(unless(404))
  return info?.State.Running === true
}
