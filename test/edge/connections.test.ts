import { once } from 'node:events'
import { request, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { applicationRoom } from '../../policy/proxy-connections.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ask, named, startOrigin } from '../kit/servers/origin.ts'
import { startProxy } from '../kit/servers/proxy.ts'

const limit = 3

/** An application that answers on request of the test, and another one, behind a proxy with two workers. */
async function scene(t: ExecutionContext) {
  const held: ServerResponse[] = []
  const busy = await startOrigin((_, answer) => void held.push(answer))
  const other = await named('other')
  const proxy = await startProxy({ EDGE_CONNECTIONS_PER_APP: String(limit), EDGE_WORKERS: '2' })
  t.teardown(async () => {
    await proxy.stop()
    await Promise.all([busy.stop(), other.stop()])
  })
  const address = '127.0.0.1'
  await proxy.edge.setRoute({ host: 'busy.localhost', appId: 'a1', address, port: busy.port })
  await proxy.edge.setRoute({ host: 'other.localhost', appId: 'a2', address, port: other.port })
  const releaseAll = () => {
    for (const answer of held.splice(0)) answer.end('done')
  }
  return { proxy, held, releaseAll, port: proxy.port }
}

test('at its limit an application shows its next visitor a page, and others answer', async t => {
  const { held, releaseAll, port } = await scene(t)
  for (let round = 1; round <= 2; round++) {
    const open = Array.from({ length: limit }, () => ask(port, 'busy.localhost'))
    await comesTrue(() => held.length === limit)
    for (let visitor = 1; visitor <= 4; visitor++) {
      const refused = await ask(port, 'busy.localhost')
      t.is(refused.status, 503)
      t.is(refused.headers['retry-after'], '2')
      t.regex(refused.body, /has reached its limit of open requests/)
    }
    t.is((await ask(port, 'other.localhost')).status, 200)
    t.is(held.length, limit)
    releaseAll()
    for (const answer of await Promise.all(open)) t.is(answer.status, 200)
  }
})

test('visitors who disconnect, and requests that end on one of our pages, release their connection', async t => {
  const { held, releaseAll, port } = await scene(t)
  // The proxy may hear of an end a moment later.
  const allAreFree = () =>
    comesTrue(async () => {
      let ended = 0
      const open = Array.from({ length: limit }, () => ask(port, 'busy.localhost').finally(() => ended++))
      await comesTrue(() => held.length + ended === limit)
      releaseAll()
      return (await Promise.all(open)).every(answer => answer.status === 200)
    })
  for (let round = 1; round <= 2; round++) {
    const leaving = Array.from({ length: limit }, () =>
      request({ port, host: '127.0.0.1', headers: { host: 'busy.localhost' } })
        .on('error', () => {})
        .end(),
    )
    await comesTrue(() => held.length === limit)
    for (const visitor of leaving) visitor.destroy()
    held.splice(0)
    await allAreFree()
    // The body is found malformed when the request has reached the application already.
    for (let n = 0; n < limit; n++) {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write('POST / HTTP/1.1\r\nHost: busy.localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n')
      await comesTrue(() => held.length > 0)
      socket.write('not a number\r\n')
      socket.resume()
      await once(socket, 'close')
      held.splice(0)
      await allAreFree()
    }
  }
  t.pass()
})

test('when all applications together reach the limit of a worker, the platform itself still answers', async t => {
  const held: ServerResponse[] = []
  const busy = await startOrigin((_, answer) => void held.push(answer))
  const platform = await named('platform')
  const all = [`127.0.0.1:${platform.port}`]
  const targets = { api: all, blob: all, s3: all, files: all, public: all }
  const settings = { EDGE_WORKERS: '1', EDGE_CONNECTIONS_PER_ADDRESS: '1000' }
  const workerConnections = 128
  const proxy = await startProxy(settings, () => ({ targets, workerConnections }))
  t.teardown(async () => {
    await proxy.stop()
    await Promise.all([busy.stop(), platform.stop()])
  })
  const apps = ['a', 'b', 'c', 'd']
  for (const name of apps)
    await proxy.edge.setRoute({ host: `${name}.localhost`, appId: name, address: '127.0.0.1', port: busy.port })
  const room = applicationRoom(workerConnections)
  for (let round = 1; round <= 2; round++) {
    let refused = 0
    const asked = Array.from({ length: room + 6 }, async (_, n) => {
      const answer = await ask(proxy.port, `${apps[n % apps.length]}.localhost`)
      if (answer.status === 503) refused++
      return answer
    })
    await comesTrue(() => held.length + refused === room + 6)
    t.is(refused, 6)
    for (const surface of ['api', 'blob', 's3'])
      t.is((await ask(proxy.port, `${surface}.localhost`)).body, 'platform', surface)
    for (const answer of held.splice(0)) answer.end('done')
    for (const answer of await Promise.all(asked))
      if (answer.status === 503) t.is(answer.headers['retry-after'], '2')
      else t.is(answer.body, 'done')
  }
})

test('the limit of an address is not that of the control socket, whose requests are ours', async t => {
  const proxy = await startProxy({ EDGE_CONNECTIONS_PER_ADDRESS: '1', EDGE_WORKERS: '1' })
  t.teardown(proxy.stop)
  const { controlSocket: socketPath } = proxy.config.edge
  const headers = { host: 'control', 'content-length': '10' }
  const held = request({ socketPath, method: 'POST', path: '/names', headers })
  t.teardown(() => held.destroy())
  held.on('error', () => {}).write('held')
  for (let look = 0; look < 20; look++) t.deepEqual(await proxy.edge.listRoutes(), [])
})
