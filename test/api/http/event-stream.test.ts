import { once } from 'node:events'
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { EventStream, type EventStreamOptions, frameOf } from '../../../api/http/event-stream.ts'
import { Exchange } from '../../../api/http/exchange.ts'
import { listening } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'

test('a frame preserves text, one line each', t => {
  t.is(frameOf({ event: 'logs', data: 'one' }), 'event: logs\ndata: one\n\n')
  t.is(frameOf({ event: 'logs', data: '', id: '7' }), 'event: logs\nid: 7\ndata: \n\n')
  t.is(frameOf({ event: 'x', data: 'a\r\nb\rc\n' }), 'event: x\ndata: a\ndata: b\ndata: c\ndata: \n\n')
})

/** A server whose answers are streams, and a reader of one that takes nothing of it. */
async function opened(t: ExecutionContext, options?: EventStreamOptions) {
  const exchanges: Exchange[] = []
  const server = createServer((request, response) => {
    exchanges.push(new Exchange(request, response, '127.0.0.1'))
  })
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = await listening(server)
  return async () => {
    const call = get(url, { agent: false })
    await once(server, 'request')
    const exchange = exchanges.at(-1)!
    const stream = new EventStream(exchange, options)
    const [reader] = (await once(call, 'response')) as [IncomingMessage]
    reader.on('error', () => {})
    t.teardown(() => void reader.destroy()) // one that takes nothing does not hear of the end either
    return { stream, reader, response: exchange.response }
  }
}

/** Fills what the kernels on both sides hold, which is beyond our sight, until so many bytes wait here. */
async function fill({ stream, response }: { stream: EventStream; response: ServerResponse }, bytes: number) {
  while (response.writableLength < bytes) {
    stream.write(Buffer.alloc(65_536, 'x'))
    await new Promise(setImmediate)
  }
}

test('a reader that lags 1 MB behind is disconnected, and none that lags by less', async t => {
  const one = await (await opened(t))()
  await fill(one, 100_000)
  // Without a turn of the loop nothing is taken in between.
  let waiting = 0
  for (; !one.response.destroyed; one.stream.write(Buffer.alloc(1024, 'x'))) waiting = one.response.writableLength
  t.true(waiting > 1_000_000 && waiting <= 1_048_576, `${waiting} bytes were waited for`)
})

test('a reader that takes nothing for 20 s is disconnected, and not before; one with nothing buffered is not', async t => {
  let clock = 1_000_000
  const open = await opened(t, { now: () => clock })
  const [stalled, idle] = [await open(), await open()]
  await fill(stalled, 100_000)
  clock += 20_000
  stalled.stream.look()
  t.false(stalled.response.destroyed)
  clock += 1
  for (const { stream } of [stalled, idle]) stream.look()
  t.true(stalled.response.destroyed)
  t.false(idle.response.destroyed)
})

test('fifty stalled readers are disconnected even with little buffered; another one keeps reading', async t => {
  t.timeout(120_000)
  const open = await opened(t)
  const all: Awaited<ReturnType<typeof open>>[] = []
  for (let n = 0; n < 50; n++) all.push(await open())
  const { stream: last, reader: lively, response } = await open()
  lively.resume()
  for (const one of all) await fill(one, 100_000)
  t.true(all.every(({ response }) => response.writableLength < 1_000_000))
  await comesTrue(() => {
    last.send({ event: 'still', data: 'there' })
    return all.every(({ response }) => response.destroyed)
  }, 90)
  t.false(response.destroyed)
  last.end()
  await once(lively, 'end')
})
