import type { Readable } from 'node:stream'
import type Docker from 'dockerode'
import { type ContainerEvent, HostUnreachable } from '../port.ts'
import { call } from './calls.ts'

/** Changes of a container's state. `oom` is left out: a program whose children run out of memory in a loop causes endless events. */
const actions = ['start', 'die', 'pause', 'destroy'] as const

interface EngineEvent {
  Action: string
  Actor: { Attributes: Record<string, string> }
  timeNano: number
}

/** Follows the engine's events until the signal aborts (resolves) or the stream breaks (rejects with HostUnreachable). */
export async function watch(
  docker: Docker,
  filter: Record<string, string>,
  onEvent: (event: ContainerEvent) => void,
  signal: AbortSignal,
  onOpen: () => void = () => {},
): Promise<void> {
  const filters = { type: ['container'], event: [...actions], label: labelFilter(filter) }
  const stream = (await call(() => docker.getEvents({ filters } as Docker.GetEventsOptions))) as Readable
  const stop = () => stream.destroy()
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  else onOpen()
  try {
    for await (const line of lines(stream)) {
      const event = containerEvent(JSON.parse(line))
      if (event) onEvent(event)
    }
  } catch (error) {
    if (!signal.aborted) throw new HostUnreachable('The event stream of the container engine broke.', { cause: error })
  } finally {
    signal.removeEventListener('abort', stop)
    stream.destroy()
  }
  if (!signal.aborted) throw new HostUnreachable('The event stream of the container engine ended.')
}

/** Unlike readline, this ends with the stream, also when it breaks. */
async function* lines(stream: Readable): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of stream.setEncoding('utf8')) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    yield* parts.filter(Boolean)
  }
}

export function labelFilter(filter: Record<string, string>): string[] {
  return Object.entries(filter).map(([name, value]) => `${name}=${value}`)
}

function containerEvent({ Action, Actor, timeNano }: EngineEvent): ContainerEvent | null {
  const action = actions.find(candidate => candidate === Action)
  if (!action) return null
  const { name = '', image: _image, exitCode: _exitCode, ...labels } = Actor.Attributes
  return { action, name, labels, at: new Date(timeNano / 1e6) }
}
