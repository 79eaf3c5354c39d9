import { type AddressInfo, createServer, type Socket } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { passGate } from '../../../activities/releases/health-gate.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'

/** Its container `c` runs. */
const engine = new FakeContainerHost()
engine.put({
  ...{ id: 'c', name: 'c', labels: {}, status: 'running', running: true, startedAt: new Date(), finishedAt: null },
  ...{ exitCode: null, oom: false, hostPort: null, hostAddress: null, address: null },
})

/** A server that greets each connection, sends a piece every 50 ms, and never ends its answer. */
async function trickling(t: ExecutionContext, { first = '', piece }: { first?: string; piece: string }) {
  const sockets = new Set<Socket>()
  const requests = { count: 0 }
  const server = createServer(socket => {
    requests.count++
    sockets.add(socket)
    socket.write(first)
    const timer = setInterval(() => socket.write(piece), 50)
    socket
      .on('error', () => {})
      .on('close', () => {
        clearInterval(timer)
        sockets.delete(socket)
      })
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return { requests, target: { address: '127.0.0.1', port } }
}

const pieces = {
  'informational responses': { piece: 'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n' },
  'a header of one byte after the other': { first: 'HTTP/1.1 200 OK\r\nX: ', piece: 'a' },
}

for (const [name, piece] of Object.entries(pieces)) {
  test(`a program that answers with ${name} for ever fails its gate in time`, async t => {
    t.timeout(60_000)
    const { requests, target } = await trickling(t, piece)
    const gate = { container: 'c', target, timeoutSeconds: 1, signal: new AbortController().signal }
    t.regex((await passGate(engine, gate))?.reason ?? '', /did not answer on port/)
    t.true(requests.count > 0)
  })
}

test.serial('a clock that is set forward ends no gate', async t => {
  t.timeout(60_000)
  const server = createServer(socket =>
    socket
      .on('error', () => {})
      .resume()
      .end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'),
  )
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  const target = { address: '127.0.0.1', port: (server.address() as AddressInfo).port }
  await new Promise(done => server.close(done))
  const wall = Date.now
  t.teardown(() => {
    Date.now = wall
    return new Promise<void>(done => void server.close(() => done()))
  })
  const host = new FakeContainerHost()
  host.put((await engine.inspect('c'))!)
  const inspect = host.inspect.bind(host)
  host.inspect = async name => {
    // The program listens only once the clock has been set.
    if (Date.now === wall) {
      Date.now = () => wall() + 3_600_000
      await new Promise<void>(done => server.listen(target.port, target.address, done))
    }
    return inspect(name)
  }
  t.is(await passGate(host, { container: 'c', target, timeoutSeconds: 30, signal: new AbortController().signal }), null)
  t.not(Date.now, wall)
})

test('a cancelled gate ends immediately, even during a probe', async t => {
  t.timeout(60_000)
  const { requests, target } = await trickling(t, pieces['informational responses'])
  const cancel = new AbortController()
  // A probe that would last an hour: only the cancellation can end it.
  const options = { container: 'c', target, timeoutSeconds: 3600, probeMs: 3600_000 }
  const gate = passGate(engine, { ...options, signal: cancel.signal })
  await comesTrue(() => requests.count > 0)
  cancel.abort(new Error('no longer wanted'))
  await t.throwsAsync(gate, { message: 'no longer wanted' })
})

test('a paused program without a port is unpaused, and passes only after it has stayed up', async t => {
  const host = new FakeContainerHost()
  host.put({ ...(await engine.inspect('c'))!, name: 'p' })
  await host.pause('p')
  const looks: string[] = []
  const inspect = host.inspect.bind(host)
  host.inspect = async name => {
    const state = await inspect(name)
    looks.push(state?.status ?? 'missing')
    return state
  }
  const gate = { container: 'p', target: null, timeoutSeconds: 60, signal: new AbortController().signal }
  t.is(await passGate(host, gate), null)
  t.deepEqual([looks[0], looks.at(-1)], ['paused', 'running'])
  t.is(looks.filter(status => status === 'paused').length, 1)
})
