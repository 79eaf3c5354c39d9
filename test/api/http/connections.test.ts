import { once } from 'node:events'
import type { RequestListener, Server, ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { Exchange } from '../../../api/http/exchange.ts'
import { drain, hardenedServer } from '../../../api/http/server.ts'
import { connectionCaps } from '../../../policy/accounts/address-limits.ts'
import { comesTrue } from '../../kit/comes-true.ts'

const caps = { connections: connectionCaps.inAll, connectionsPerAddress: connectionCaps.perAddress }

async function serving(
  t: ExecutionContext,
  limits: Partial<Parameters<typeof hardenedServer>[1]>,
  listener: RequestListener,
) {
  const server = hardenedServer(listener, { ...caps, unlimited: () => false, ...limits })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return server
}

interface Line {
  socket: Socket
  text(): string
  isOver(): boolean
}

/** One connection from an address of this machine. */
async function line(server: Server, localAddress = '127.0.0.1'): Promise<Line> {
  const { port } = server.address() as AddressInfo
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  let [text, over] = ['', false]
  socket
    .on('data', piece => (text += piece))
    .on('error', () => {})
    .on('close', () => (over = true))
  await Promise.race([once(socket, 'connect'), once(socket, 'close')])
  return { socket, text: () => text, isOver: () => over }
}

const ask = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const answers: RequestListener = (_, response) => void response.end('answered')

test('an address has 100 connections, the next is closed; one that ends makes room, and other addresses have their own', async t => {
  const server = await serving(t, {}, answers)
  const lines = await Promise.all(Array.from({ length: 100 }, () => line(server)))
  for (const { socket } of lines) socket.write(ask)
  await comesTrue(() => lines.every(({ text }) => text().endsWith('answered')))
  const tooMany = await line(server)
  await comesTrue(() => tooMany.isOver())
  t.is(tooMany.text(), '')
  const neighbour = await line(server, '127.0.0.2')
  neighbour.socket.write(ask)
  await comesTrue(() => neighbour.text().endsWith('answered'))
  t.false(
    lines.some(({ isOver }) => isOver()),
    'those that were there stay',
  )
  for (const { socket } of lines.slice(0, 2)) socket.destroy()
  await comesTrue(async () => {
    const next = await line(server)
    next.socket.write(ask)
    await comesTrue(() => next.isOver() || next.text().endsWith('answered'))
    const wasServed = next.text().endsWith('answered')
    next.socket.destroy()
    return wasServed
  })
  for (const { socket } of [...lines, neighbour]) socket.destroy()
})

test('addresses that stand for many clients have no such limit', async t => {
  const server = await serving(t, { connectionsPerAddress: 2, unlimited: address => address === '127.0.0.1' }, answers)
  const lines = await Promise.all(Array.from({ length: 10 }, () => line(server)))
  for (const { socket } of lines) socket.write(ask)
  await comesTrue(() => lines.every(({ text }) => text().endsWith('answered')))
  t.false(lines.some(({ isOver }) => isOver()))
  for (const { socket } of lines) socket.destroy()
})

test('a draining server finishes the requests in progress, and then ends', async t => {
  const started: ServerResponse[] = []
  const server = await serving(t, {}, (_, response) => void started.push(response))
  const [idle, asking, reading] = [await line(server), await line(server), await line(server)]
  asking.socket.write(ask)
  await comesTrue(() => started.length === 1)
  reading.socket.write(ask)
  await comesTrue(() => started.length === 2)
  // More than the two ends of a connection hold, for somebody who does not read yet.
  const large = Buffer.alloc(32 * 1024 * 1024, 'x')
  reading.socket.pause()
  started[1]!.end(large)

  const { port } = server.address() as AddressInfo
  let isDrained = false
  const drained = drain([server], 600).then(() => {
    isDrained = true
  })
  await comesTrue(() => idle.isOver())
  await t.throwsAsync(once(connect(port, '127.0.0.1'), 'connect'))
  started[0]!.end('answered')
  await comesTrue(() => asking.isOver())
  t.regex(asking.text(), /^HTTP\/1\.1 200 [\s\S]*Connection: close[\s\S]*answered$/)
  t.false(isDrained)
  reading.socket.resume()
  await drained
  await comesTrue(() => reading.isOver())
  t.is(reading.text().slice(reading.text().indexOf('\r\n\r\n') + 4).length, large.length)
})

test('a draining server closes what has not ended in time', async t => {
  let isAsked = false
  const server = await serving(t, {}, () => {
    isAsked = true
  })
  const slow = await line(server)
  slow.socket.write(ask)
  await comesTrue(() => isAsked)
  await drain([server], 0.1)
  await comesTrue(() => slow.isOver())
  t.is(slow.text(), '')
})

test('a client that disconnects aborts each of its pipelined requests, whenever its signal is first read', async t => {
  const exchanges: Exchange[] = []
  const server = await serving(t, {}, (request, response) => {
    exchanges.push(new Exchange(request, response, '127.0.0.1'))
  })
  const { socket } = await line(server)
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(3))
  await comesTrue(() => exchanges.length === 3)
  const early = exchanges.slice(0, 2).map(({ signal }) => signal)
  t.deepEqual(
    early.map(({ aborted }) => aborted),
    [false, false],
  )
  socket.destroy()
  await comesTrue(() => early.every(({ aborted }) => aborted))
  t.true(exchanges[2]!.signal.aborted)
})
