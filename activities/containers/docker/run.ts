import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type Docker from 'dockerode'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { OutputFrames } from '../output.ts'
import type { ContainerHost, ContainerSpec, ContainerState, OnOutput } from '../port.ts'
import { attach } from './attach.ts'
import { call, toPortError, unless } from './calls.ts'

/** Max seconds until the last output arrives after the program has ended. */
const drainSeconds = 5

/**
 * Runs a container to its end. A container that an earlier attempt left under the name is removed first, and nothing of this one
 * is left when this settles. When cancelled, it rejects with the signal's reason after the container is removed.
 */
export async function runToEnd(
  docker: Docker,
  host: Pick<ContainerHost, 'create' | 'remove' | 'inspect'> &
    Record<'willStart' | 'hasStarted', (name: string) => Promise<unknown>>,
  spec: ContainerSpec,
  onOutput: OnOutput,
  signal: AbortSignal,
): Promise<{ exitCode: number; oom: boolean }> {
  signal.throwIfAborted()
  await host.remove(spec.name)
  let output: Following | undefined
  try {
    const container = docker.getContainer(await host.create(spec))
    output = await follow(container, onOutput)
    await host.willStart(spec.name)
    await call(abortSignal => container.start({ abortSignal }))
    await host.hasStarted(spec.name)
    const exitCode = await end(container, () => host.inspect(spec.name), signal)
    await Promise.race([output.ended, new Promise(done => setTimeout(done, drainSeconds * 1000).unref())])
    return { exitCode, oom: await ranOut(host, spec.name, exitCode) }
  } finally {
    output?.leave()
    await host.remove(spec.name)
  }
}

const killed = 137
const lookEveryMs = 5000
const ranOutLooks = 10
const ranOutEveryMs = 100

/** Whether it ran out of memory: the engine may learn this from the kernel only a moment after the kill. */
async function ranOut(host: Pick<ContainerHost, 'inspect'>, name: string, exitCode: number): Promise<boolean> {
  for (let look = 1; ; look++) {
    const state = await host.inspect(name)
    if (!state || state.oom || exitCode !== killed || look === ranOutLooks) return state?.oom ?? false
    await sleep(ranOutEveryMs)
  }
}

interface Following {
  /** Settles with the last byte. */
  ended: Promise<void>
  leave(): void
}

/** Call before the start, so that no byte is missed. A slow listener slows the program down. */
async function follow(container: Docker.Container, onOutput: OnOutput): Promise<Following> {
  const frames = new OutputFrames()
  const stream = await attach(container)
  const read = async () => {
    for await (const chunk of stream) {
      const text = frames.push(chunk as Buffer)
      if (text) await onOutput(text)
    }
  }
  // A broken stream only loses output: whether the program succeeded comes from the container.
  return {
    ended: read().catch(ignoreError('the exit code decides, not the stream')),
    leave: () => void (stream as unknown as Readable).destroy(),
  }
}

/**
 * Waits without a deadline, the caller's signal is the only limit. A missing container counts as killed. The container is polled
 * too: the client never reports a connection that breaks after the engine has started its answer.
 */
async function end(
  container: Docker.Container,
  inspect: () => Promise<ContainerState | null>,
  signal: AbortSignal,
): Promise<number> {
  const over = new AbortController()
  const abortSignal = AbortSignal.any([signal, over.signal])
  const byWait = container
    .wait({ abortSignal } as object)
    .catch(unless(404))
    .then(result => result?.StatusCode ?? killed)
  const byPolling = (async () => {
    for (;;) {
      await sleep(lookEveryMs, undefined, { signal: abortSignal })
      const state = await inspect()
      if (!state || state.status === 'exited' || state.status === 'dead') return state?.exitCode ?? killed
    }
  })()
  try {
    return await Promise.race([byWait, byPolling])
  } catch (error) {
    signal.throwIfAborted()
    throw toPortError(error)
  } finally {
    over.abort()
    for (const loser of [byWait, byPolling]) loser.catch(ignoreError('the error that led here is thrown'))
  }
}
