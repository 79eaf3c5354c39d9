import { once } from 'node:events'
import { request, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { applicationRoom } from '../../policy/proxy-connections.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ask, named, type Seen, startOrigin } from '../kit/servers/origin.ts'
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

const workerConnections = 128
const room = applicationRoom(workerConnections)

/** A proxy whose workers have a small room, and an application that holds what it is sent, under any number of routes. */
async function smallRoom(t: ExecutionContext, workers = 1) {
  const held: ServerResponse[] = []
  const busy = await startOrigin((_, answer) => void held.push(answer))
  const platform = await named('platform')
  const all = [`127.0.0.1:${platform.port}`]
  const targets = { api: all, blob: all, s3: all, files: all, public: all }
  const settings = { EDGE_WORKERS: String(workers), EDGE_CONNECTIONS_PER_ADDRESS: '1000' }
  const proxy = await startProxy(settings, () => ({ targets, workerConnections }))
  t.teardown(async () => {
    await proxy.stop()
    await Promise.all([busy.stop(), platform.stop()])
  })
  const hostOf = (app: string) => `${app}.localhost`
  const open: Promise<Seen>[] = []
  const refusals: Seen[] = []
  return {
    ...{ proxy, hostOf },
    route: (app: string, account?: string, port = busy.port) =>
      proxy.edge.setRoute({ host: hostOf(app), appId: app, address: '127.0.0.1', port, account }),
    /** Sends requests to these hosts alternately; resolves to how many were admitted, and to the answers of the others. */
    async fill(count: number, ...hosts: string[]) {
      const [heldBefore, refusedBefore] = [held.length, refusals.length]
      for (let n = 0; n < count; n++) {
        const answer = ask(proxy.port, hosts[n % hosts.length]!)
        open.push(answer)
        void answer.then(seen => seen.status === 503 && refusals.push(seen), ignoreError('reported by `release`'))
      }
      await comesTrue(() => held.length + refusals.length === heldBefore + refusedBefore + count)
      return { admitted: held.length - heldBefore, refused: refusals.slice(refusedBefore) }
    },
    /** Answers everything that is held, and checks that each admitted request got its answer. */
    async release() {
      for (const answer of held.splice(0)) answer.end('done')
      for (const { status, body } of await Promise.all(open.splice(0))) if (status !== 503) t.is(body, 'done')
    },
  }
}

test('when all applications together reach the limit of a worker, the platform itself still answers', async t => {
  const { proxy, route, hostOf, fill, release } = await smallRoom(t)
  const apps = Array.from({ length: room + 6 }, (_, n) => `a${n}`)
  for (const app of apps) await route(app)
  for (let round = 1; round <= 2; round++) {
    const { admitted, refused } = await fill(apps.length, ...apps.map(hostOf))
    t.deepEqual([admitted, refused.length], [room, 6])
    for (const surface of ['api', 'blob', 's3'])
      t.is((await ask(proxy.port, `${surface}.localhost`)).body, 'platform', surface)
    for (const { headers } of refused) t.is(headers['retry-after'], '2')
    await release()
  }
})

test('an account with many applications has half of a worker’s room, and the next ones are served', async t => {
  const { proxy, route, hostOf, fill, release } = await smallRoom(t)
  const many = Array.from({ length: 10 }, (_, n) => `many${n}`)
  for (const app of many) await route(app, 'aa')
  await route('second', 'bb')
  await route('third', 'cc')
  for (let round = 1; round <= 2; round++) {
    const { admitted, refused } = await fill(room, ...many.map(hostOf))
    t.is(admitted, room / 2)
    for (const { headers, body } of refused) {
      t.is(headers['retry-after'], '2')
      t.regex(body, /has reached the limit of open requests of all their applications/)
    }
    t.is((await fill(room / 4, hostOf('second'))).admitted, room / 4, 'half of the rest')
    t.is((await fill(10, hostOf('second'))).admitted, 0)
    t.is((await fill(10, hostOf('third'))).admitted, room / 8)
    t.is((await fill(10, ...many.map(hostOf))).admitted, 0)
    await release()
  }
  const sent = 2 * (room + room / 4 + 10 + 10 + 10)
  const lines = (await proxy.accessLog(sent)).filter(({ status }) => status === 503)
  t.true(lines.length > 0)
  t.true(
    lines.every(({ app, mitigated }) => many.concat('second', 'third').includes(String(app)) && mitigated === true),
  )
})

test('an account that fills several workers leaves room in each of them', async t => {
  const { proxy, route, hostOf, fill, release } = await smallRoom(t, 2)
  const other = await named('other')
  t.teardown(other.stop)
  for (const app of ['one', 'two', 'three']) await route(app, 'aa')
  await route('other', 'bb', other.port)
  for (let round = 1; round <= 2; round++) {
    let admitted = 0
    for (let wave = 1; wave <= 6; wave++)
      admitted += (await fill(room / 2, ...['one', 'two', 'three'].map(hostOf))).admitted
    t.true(admitted >= room / 2 && admitted <= room, String(admitted))
    for (let visitor = 1; visitor <= 10; visitor++) t.is((await ask(proxy.port, hostOf('other'))).body, 'other')
    await release()
  }
})

for (const [whose, account] of [
  ['the same', 'aa'],
  ['another', 'bb'],
] as const)
  test(`a request that a member of ${whose} account answers in the place of one that failed counts for that account`, async t => {
    const { proxy, route, hostOf, fill, release } = await smallRoom(t)
    const name = 'group.example.org'
    await route('ready', account)
    await route('further', account)
    await route('rest', whose === 'another' ? 'aa' : 'bb')
    for (let round = 1; round <= 2; round++) {
      const lost: Socket[] = []
      const failing = await startOrigin(({ socket }) => void lost.push(socket))
      t.teardown(failing.stop)
      await route('failing', 'aa', failing.port)
      // It is chosen while it is the only one that is healthy.
      await proxy.edge.setName({ host: name, members: [hostOf('failing'), `${hostOf('ready')}!`] })
      const turned = fill(10, name)
      await comesTrue(() => lost.length === 10)
      for (const socket of lost) socket.destroy()
      t.is((await turned).admitted, 10)
      t.is((await fill(room / 2, hostOf('further'))).admitted, room / 2 - 10)
      t.is((await fill(room / 2, hostOf('rest'))).admitted, room / 4)
      await release()
    }
  })

test('an application whose route names no account is one of its own, and takes its open requests along when it names one', async t => {
  const { route, hostOf, fill, release } = await smallRoom(t)
  await route('known', 'aa')
  for (let round = 1; round <= 2; round++) {
    await route('older')
    await route('oldest')
    t.is((await fill(room / 2 + 4, hostOf('older'))).admitted, room / 2)
    t.is((await fill(room / 2 + 4, hostOf('oldest'))).admitted, room / 4)
    t.is((await fill(10, hostOf('known'))).admitted, room / 8)
    await release()

    t.is((await fill(10, hostOf('older'))).admitted, 10)
    await route('older', 'aa')
    t.is((await fill(1, hostOf('older'))).admitted, 1)
    t.is((await fill(room / 2 + 4, hostOf('known'))).admitted, room / 2 - 11)
    t.is((await fill(4, hostOf('older'))).admitted, 0)
    t.is((await fill(room / 2 + 4, hostOf('oldest'))).admitted, room / 4)
    await release()
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
