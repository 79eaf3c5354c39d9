import { StringDecoder } from 'node:string_decoder'
import type { LiveEvent } from '../../activities/live/live-feed.ts'
import type { AppRow } from '../../db/apps/apps.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { CodedError } from '../../policy/errors.ts'
import type { HostCall } from './host-call.ts'

/**
 * Opens the host's live events of an application, in batches as they arrive. Ends when the host ends it, rejects when the connection
 * breaks. Throws CLUSTER_UNAVAILABLE and CLUSTER_TIMEOUT before the first event.
 */
export type OpenLive = (app: AppRow, signal: AbortSignal) => Promise<AsyncIterable<LiveEvent[]>>

const openDeadlineMs = 3000

/** Over HTTP. */
export function hostLive(ask: HostCall): OpenLive {
  return async (app, signal) => {
    const { ok, body } = await ask(app, { path: 'live', deadlineMs: openDeadlineMs })
    if (!ok || !body) throw new CodedError('CLUSTER_UNAVAILABLE')
    return eventsOf(body, signal)
  }
}

/** One JSON object per line; chunks may end anywhere. */
async function* eventsOf(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<LiveEvent[]> {
  const reader = body.getReader()
  const cancel = () => void reader.cancel().catch(ignoreError('a stream that broke is closed already'))
  signal.addEventListener('abort', cancel)
  if (signal.aborted) cancel()
  const decoder = new StringDecoder('utf8')
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const lines = (rest + decoder.write(Buffer.from(value))).split('\n')
      rest = lines.pop() ?? ''
      if (lines.length > 0) yield lines.map(line => JSON.parse(line))
    }
  } finally {
    signal.removeEventListener('abort', cancel)
    cancel()
  }
}
