import type { LiveFeed } from '../../hosts/live-feeds.ts'
import { EventStream, type EventStreamOptions, frameOf } from '../../http/event-stream.ts'
import { streamed } from '../../http/respond.ts'
import { type Call, endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'

type AppCall = Pick<Call<{ scope: null; permission: 'read' }>, 'app' | 'caller' | 'exchange'>

const system = (data: string): string => frameOf({ event: 'system', data })

/** A client may open one stream of an application every 5 s, so it should not reconnect sooner. */
const streamOptions: EventStreamOptions = { reconnectMs: 6000, heartbeat: system('PING') }

/** Contract 4.15: output and figures of one application in real time, for up to 10 minutes. */
export const streamRealtime = endpoint({
  name: 'apps.realtime',
  method: 'GET',
  path: '/v2/apps/{appId}/realtime',
  summary: 'Follow the output and resource usage of an application',
  auth: { scope: 'apps:read', permission: 'read' },
  stream: { events: 'Events `system`, `logs`, `status` and `error`.' },
  envelope: false,
  errors: ['REALTIME_MAX_CONNECTIONS', 'REALTIME_MAX_CONNECTIONS_APP', 'CLUSTER_UNAVAILABLE', 'CLUSTER_TIMEOUT'],
  async handle(call, services) {
    const lease = await services.leases.take(call.caller.user.id, call.app.id)
    const feed = services.live.of(call.app)
    try {
      await feed.join()
      if (!call.exchange.signal.aborted) await follow(call, lease, feed, services)
    } finally {
      feed.leave()
      await services.leases.release(lease)
    }
    return streamed
  },
})

/** Resolves when the stream has ended, whichever side ended it. */
function follow(call: AppCall, connectionId: string, feed: LiveFeed, { access, leases }: Services): Promise<void> {
  return new Promise(resolve => {
    const { app, exchange } = call
    const stream = new EventStream(exchange, streamOptions)
    const end = (...last: string[]): void => {
      clearTimeout(timer)
      unwatch()
      unlisten()
      stream.write(last.join(''))
      stream.end()
      resolve()
    }
    stream.write(system(`REALTIME_CONNECTING | ${connectionId}`) + system('REALTIME_CONNECTED'))
    const timer = setTimeout(() => end(system('REALTIME_TIMEOUT'), system('REALTIME_RECONNECT')), leases.maxMs)
    const unwatch = access.watch(call, 'read', why =>
      end(system(why === 'lost' ? 'REALTIME_DISCONNECTED' : 'REALTIME_RECONNECT')),
    )
    const unlisten = feed.listen(app, {
      take: frames => stream.write(frames),
      end: why => end(why === 'lost' ? system('REALTIME_ERROR') : frameOf({ event: 'error', data: why })),
    })
    exchange.signal.addEventListener('abort', () => end())
  })
}
