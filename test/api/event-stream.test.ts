import { once } from 'node:events'
import { createServer, get, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { Exchange } from '../../api/call.ts'
import { EventStream, frameOf } from '../../api/event-stream.ts'
import { listening } from '../kit/api.ts'

test('a frame holds text as it was, one line each', t => {
  t.is(frameOf({ event: 'logs', data: 'one' }), 'event: logs\ndata: one\n\n')
  t.is(frameOf({ event: 'logs', data: '', id: '7' }), 'event: logs\nid: 7\ndata: \n\n')
  t.is(frameOf({ event: 'x', data: 'a\r\nb\rc\n' }), 'event: x\ndata: a\ndata: b\ndata: c\ndata: \n\n')
})

test('fifty readers that take nothing are cut within 30 s, though little waits for them; another reads on', async t => {
  t.timeout(60_000)
  const exchanges: Exchange[] = []
  const server = createServer((request, response) => {
    exchanges.push(new Exchange(request, response, '127.0.0.1', {}, {}))
  })
  t.teardown(() => void server.close())
  const url = await listening(server)
  const streams: EventStream[] = []
  const readers: IncomingMessage[] = []
  for (let n = 0; n < 51; n++) {
    const call = get(url, { agent: false })
    await once(server, 'request')
    streams.push(new EventStream(exchanges[n]!))
    const [reader] = await once(call, 'response')
    readers.push(reader.on('error', () => {}))
  }
  const lively = readers.pop()!.resume()
  const [last, stalled] = [streams.pop()!, exchanges.slice(0, 50)]
  // What the kernels on both sides hold is beyond our sight: fill it, and let 100 KB wait here.
  for (const [n, { response }] of stalled.entries())
    while (response.writableLength < 100_000) {
      streams[n]!.write(Buffer.alloc(65_536, 'x'))
      await new Promise(setImmediate)
    }
  t.true(stalled.every(({ response }) => response.writableLength < 1_000_000))
  const begun = performance.now()
  for (; stalled.some(({ response }) => !response.destroyed); await sleep(100)) {
    last.send({ event: 'still', data: 'there' })
    if (performance.now() - begun > 30_000) break
  }
  t.true(stalled.every(({ response }) => response.destroyed))
  t.false(exchanges[50]!.response.destroyed)
  last.end()
  await once(lively, 'end')
  for (const reader of readers) reader.destroy()
})
