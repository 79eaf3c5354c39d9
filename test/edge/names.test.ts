import { once } from 'node:events'
import { request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { WebSocket, WebSocketServer } from 'ws'
import { unusedPort } from '../../cli/installation/ports.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ask, named, startOrigin } from '../kit/servers/origin.ts'
import { startProxy, statusOfLine, type TestProxy } from '../kit/servers/proxy.ts'

const address = '127.0.0.1'
const limit = 4
let proxy: TestProxy

test.before(async () => {
  proxy = await startProxy({ EDGE_APP_BODY_MB: '1', EDGE_CONNECTIONS_PER_APP: String(limit) })
})
test.after.always(() => proxy?.stop())

const appOf = (label: string) => `app-${label}`
const memberOf = (label: string) => `${label}.apps.localhost`
const setRoute = (label: string, port: number) =>
  proxy.edge.setRoute({ host: memberOf(label), appId: appOf(label), address, port })

/** A custom name of members with these ports. */
async function balanced(label: string, ports: Record<string, number>): Promise<string> {
  for (const [member, port] of Object.entries(ports)) await setRoute(member, port)
  const host = `${label}.example.org`
  await proxy.edge.setName({ host, members: Object.keys(ports).map(memberOf) })
  return host
}

async function origins(t: ExecutionContext, ...labels: string[]): Promise<Record<string, number>> {
  const all = await Promise.all(labels.map(async label => [label, await named(label)] as const))
  t.teardown(() => Promise.all(all.map(([, origin]) => origin.stop())))
  return Object.fromEntries(all.map(([label, { port }]) => [label, port]))
}

async function bodies(host: string, count: number): Promise<Set<string>> {
  const all = new Set<string>()
  for (let n = 0; n < count; n++) all.add((await ask(proxy.port, host)).body)
  return all
}

test('a name of one member leads there, is logged as its application, and reaches it as the name that was requested', async t => {
  let seen: Record<string, unknown> = {}
  const origin = await startOrigin((incoming, answer) => {
    seen = incoming.headers
    answer.end('one')
  })
  t.teardown(origin.stop)
  const host = await balanced('single', { single: origin.port })
  for (const spelled of [host, host.toUpperCase(), `${host}:8080`, `${host}.`])
    t.is((await ask(proxy.port, spelled)).body, 'one', spelled)
  await ask(proxy.port, host, { path: '/last', headers: { x_forwarded_for: '1.2.3.4' } })
  t.like(seen, { host, 'x-forwarded-host': host, 'x-forwarded-for': address })
  t.false('x_forwarded_for' in seen)
  t.like((await logged(host, '/last')) ?? {}, { app: appOf('single'), status: 200 })
})

const logged = async (host: string, path: string) => {
  await comesTrue(async () => (await proxy.accessLog(1)).some(line => line.host === host && line.path === path))
  return (await proxy.accessLog(1)).find(line => line.host === host && line.path === path)
}

test('a member whose subdomain another application has taken over gets nothing', async t => {
  const ports = await origins(t, 'stays', 'foreign')
  const host = 'given.example.org'
  for (const [label, port] of Object.entries(ports)) await setRoute(label, port)
  const members = [`${memberOf('stays')}@${appOf('stays')}`, `${memberOf('foreign')}@${appOf('former')}`]
  await proxy.edge.setName({ host, members })
  t.deepEqual(await bodies(host, 20), new Set(['stays']))
  t.deepEqual((await proxy.edge.listNames()).find(name => name.host === host)?.members, members)
  await proxy.edge.setName({ host, members: members.slice(1) })
  t.is((await ask(proxy.port, host)).status, 404)
  for (const member of ['a.apps.localhost@', 'a.apps.localhost@x@y', '@x', 'a.apps.localhost@x y'])
    await t.throwsAsync(proxy.edge.setName({ host, members: [member] }), { name: 'NameRefused' }, member)
})

test('the log names the application that answered, also after a try at another', async t => {
  const host = await balanced('logged', { dead: await unusedPort(), ...(await origins(t, 'alive')) })
  let tried = 0
  for (let n = 0; n < 40 && tried < 1; n++) {
    await comesTrue(async () => (await ask(proxy.port, host, { path: `/${n}` })).body === 'alive')
    const line = await logged(host, `/${n}`)
    t.is(line?.app, appOf('alive'))
    if (String(line?.upstream_status).includes(',')) tried++
    await setRoute('dead', await unusedPort())
  }
  t.is(tried, 1, 'the dead member was tried first at least once')
})

test('a host without route and name has no entry; a name whose members have no route neither', async t => {
  t.is((await ask(proxy.port, 'nobody.example.org')).status, 404)
  await proxy.edge.setName({ host: 'empty.example.org', members: [memberOf('not-there')] })
  const seen = await ask(proxy.port, 'empty.example.org')
  t.is(seen.status, 404)
  t.regex(seen.body, /No application answers at empty\.example\.org/)
})

test('a host that has a route is never another name', async t => {
  const { route, other } = (await origins(t, 'route', 'other')) as { route: number; other: number }
  await setRoute('route', route)
  await setRoute('other', other)
  await proxy.edge.setName({ host: memberOf('route'), members: [memberOf('other')] })
  t.deepEqual(await bodies(memberOf('route'), 10), new Set(['route']))
  await proxy.edge.removeRoute(memberOf('route'))
  t.deepEqual(await bodies(memberOf('route'), 3), new Set(['other']))
})

test('an unhealthy member gets no requests while another is ready, and as many as before once it is healthy', async t => {
  const host = await balanced('ailing', await origins(t, 'well', 'ill', 'fit'))
  const members = (marks: Record<string, string>) =>
    ['well', 'ill', 'fit'].map(label => `${memberOf(label)}@${appOf(label)}${marks[label] ?? ''}`)
  const answering = async (count = 40) => [...(await bodies(host, count))].sort()
  t.deepEqual(await answering(), ['fit', 'ill', 'well'])
  await proxy.edge.setName({ host, members: members({ ill: '!' }) })
  t.deepEqual(await answering(), ['fit', 'well'])
  t.deepEqual((await proxy.edge.listNames([host]))[0]?.members, members({ ill: '!' }))
  t.is((await ask(proxy.port, memberOf('ill'))).body, 'ill', 'its own name leads to it all the same')
  await proxy.edge.setName({ host, members: members({ ill: '!', well: '!', fit: '!' }) })
  t.deepEqual(await answering(), ['fit', 'ill', 'well'], 'where all are unhealthy, all answer')
  await setRoute('well', 0)
  await proxy.edge.setName({ host, members: members({ ill: '!', fit: '!' }) })
  t.deepEqual(await answering(), ['fit', 'ill'], 'a healthy member that does not run is none')
  await setRoute('fit', await unusedPort())
  await proxy.edge.setName({ host, members: members({ ill: '!', well: '!' }) })
  t.deepEqual(await answering(10), ['ill'], 'nor is one whose connections fail')
  for (const wrong of ['a.apps.localhost!!', '!', 'a.apps.localhost!@x'])
    await t.throwsAsync(proxy.edge.setName({ host, members: [wrong] }), { name: 'NameRefused' }, wrong)
  const twice = [memberOf('ill'), `${memberOf('ill')}!`]
  await t.throwsAsync(proxy.edge.setName({ host, members: twice }), { name: 'NameRefused' })
})

test('a member that is not known to be healthy comes after those that are, before unhealthy ones, and is no worse alone', async t => {
  const host = await balanced('starting', await origins(t, 'proved', 'fresh', 'sick'))
  const setMarks = (marks: Record<string, string>) =>
    proxy.edge.setName({ host, members: Object.entries(marks).map(([label, mark]) => memberOf(label) + mark) })
  const answering = async () => [...(await bodies(host, 40))].sort()
  await setMarks({ proved: '', fresh: '?', sick: '!' })
  t.deepEqual(await answering(), ['proved'])
  t.is((await ask(proxy.port, memberOf('fresh'))).body, 'fresh')
  await setMarks({ proved: '?', fresh: '?', sick: '!' })
  t.deepEqual(await answering(), ['fresh', 'proved'])
  await setRoute('proved', 0)
  await setMarks({ proved: '', fresh: '?', sick: '!' })
  t.deepEqual(await answering(), ['fresh'], 'a healthy member that does not run is none')
  await setMarks({ fresh: '?' })
  t.deepEqual(await answering(), ['fresh'])
  for (const wrong of ['a.apps.localhost?!', '?', 'a.apps.localhost?@x'])
    await t.throwsAsync(proxy.edge.setName({ host, members: [wrong] }), { name: 'NameRefused' }, wrong)
})

test('a member whose connections fail comes after an unhealthy one that answers', async t => {
  const host = await balanced('failing', { gone: await unusedPort(), ...(await origins(t, 'ailing-too')) })
  const members = [memberOf('gone'), `${memberOf('ailing-too')}!`]
  await proxy.edge.setName({ host, members })
  const began = Date.now()
  const requests = 40
  t.deepEqual(await bodies(host, requests), new Set(['ailing-too']))
  const rests = Math.ceil((Date.now() - began) / 2000) // each begins with a failed try
  const linesOf = async () => (await proxy.accessLog(1)).filter(line => line.host === host)
  await comesTrue(async () => (await linesOf()).length === requests)
  const lines = await linesOf()
  const tries = lines.filter(line => String(line.upstream_status).includes(',')).length
  t.true(tries >= 1 && tries <= 1 + rests, `${tries} of ${lines.length} were sent to it first`)
})

test('where most members are unhealthy, the others get equal shares', async t => {
  const ready = ['east', 'west', 'north', 'south']
  const marked = Array.from({ length: 8 }, (_, n) => `marked-${n}`)
  const ports = await origins(t, ...ready, ...marked)
  // All that are marked stand before the first ready one.
  const host = await balanced('shares', ports)
  await proxy.edge.setName({ host, members: [...marked.map(label => `${memberOf(label)}!`), ...ready.map(memberOf)] })
  const counts = new Map<string, number>()
  const requests = 800
  for (let n = 0; n < requests; n++) {
    const { body } = await ask(proxy.port, host)
    counts.set(body, (counts.get(body) ?? 0) + 1)
  }
  t.deepEqual([...counts.keys()].sort(), [...ready].sort())
  for (const [label, count] of counts) t.true(count > requests * 0.16 && count < requests * 0.34, `${label}: ${count}`)
})

test('a name whose only member is unhealthy leads there', async t => {
  const host = await balanced('lonely', await origins(t, 'lonely'))
  await proxy.edge.setName({ host, members: [`${memberOf('lonely')}!`] })
  t.is((await ask(proxy.port, host)).body, 'lonely')
})

test('members that are held are skipped; when all are, visitors get the page of a held route', async t => {
  const host = await balanced('held', { ...(await origins(t, 'up')), held: 0, 'held-too': 0 })
  t.deepEqual(await bodies(host, 20), new Set(['up']))
  await setRoute('up', 0)
  const seen = await ask(proxy.port, host, { path: '/held' })
  t.is(seen.status, 503)
  t.is(seen.headers['retry-after'], '2')
  t.regex(String((await logged(host, '/held'))?.app), /^app-(up|held|held-too)$/)
})

test('when no member accepts a connection, visitors get the page of an application that does not listen', async t => {
  const host = await balanced('refusing', { r1: await unusedPort(), r2: await unusedPort() })
  const seen = await ask(proxy.port, host)
  t.is(seen.status, 502)
  t.regex(seen.body, /The application is not reachable/)
})

test('a full member leaves its visitors to the others, until all are full', async t => {
  const held: ServerResponse[] = []
  const busy = await Promise.all([1, 2].map(() => startOrigin((_, answer) => void held.push(answer))))
  t.teardown(() => Promise.all(busy.map(origin => origin.stop())))
  const host = await balanced('full', { full1: busy[0]!.port, full2: busy[1]!.port })
  for (let round = 1; round <= 2; round++) {
    const direct = Array.from({ length: limit }, () => ask(proxy.port, memberOf('full1')))
    await comesTrue(() => held.length === limit)
    const open = Array.from({ length: limit }, () => ask(proxy.port, host))
    await comesTrue(() => held.length === 2 * limit)
    const refused = await ask(proxy.port, host)
    t.is(refused.status, 503)
    t.regex(refused.body, /has reached its limit of open requests/)
    for (const answer of held.splice(0)) answer.end('done')
    for (const { status } of await Promise.all([...direct, ...open])) t.is(status, 200)
  }
})

test('a POST that reached a member which then ends is not sent again; one that was refused is', async t => {
  let posts = 0
  const breaking = await startOrigin(({ socket }) => {
    posts++
    socket.destroy()
  })
  t.teardown(breaking.stop)
  const post = (host: string) => ask(proxy.port, host, { method: 'POST', body: 'x' })
  t.is((await post(await balanced('post', { breaking: breaking.port }))).status, 502)
  t.is(posts, 1)
  const host = await balanced('refused', { refusing: await unusedPort(), ...(await origins(t, 'taking')) })
  for (let n = 0; n < 10; n++) t.is((await post(host)).body, 'taking')
})

test('a WebSocket, and the limit of a body, work by a custom name as by the application’s own', async t => {
  const sockets = new WebSocketServer({ port: 0, host: address })
  sockets.on('connection', socket => socket.on('message', data => socket.send(String(data))))
  await once(sockets, 'listening')
  t.teardown(() => sockets.close())
  const host = await balanced('socket', { socket: (sockets.address() as AddressInfo).port })
  const client = new WebSocket(`ws://127.0.0.1:${proxy.port}/chat`, { headers: { host } })
  t.teardown(() => client.terminate())
  await once(client, 'open')
  client.send('hello')
  t.is(String((await once(client, 'message'))[0]), 'hello')

  const large = request({ port: proxy.port, host: address, method: 'POST', headers: { host }, agent: false })
  large.setHeader('content-length', 1024 ** 2 + 1).flushHeaders()
  const [answer] = await once(large, 'response')
  t.is(answer.statusCode, 413)
  large.on('error', () => {}).destroy()
})

test('names outlive a killed proxy', async t => {
  const own = await startProxy()
  t.teardown(own.stop)
  const origin = await named('kept')
  t.teardown(origin.stop)
  await own.edge.setRoute({ host: 'a.apps.localhost', appId: 'a1', address, port: origin.port })
  const kept = { host: 'kept.example.org', members: ['a.apps.localhost'] }
  await own.edge.syncNames([kept, { ...kept, host: 'removed.example.org' }])
  await own.edge.removeName('removed.example.org')
  await own.kill('SIGKILL')
  await own.start()
  t.deepEqual(await own.edge.listNames(), [kept])
  t.is((await ask(own.port, 'kept.example.org')).body, 'kept')
  t.is((await ask(own.port, 'removed.example.org')).status, 404)
})

test('lines that are no names are refused by the proxy itself', async t => {
  const lines = [
    ...['', '{}', 'x', '{"host":"a.org"}', '{"host":"a.org","removed":false}'],
    ...['[]', '[""]', '["a",]', '["a" ,"b"]', '[a]', '["a\\"b"]', '["A"]', '["a"],"x":1', '"a"', 'null'].map(
      members => `{"host":"a.org","members":${members}}`,
    ),
    '{"host":"a.org","members":["a"]}\n{"host":"b.org"}',
    ...['a b', 'A', '*', 'a"', ''].map(host => `{"host":"${host}","members":["a"]}`),
  ]
  for (const line of lines) t.is(await statusOfLine(proxy, 'names', line), 422, line)
  t.deepEqual(
    (await proxy.edge.listNames()).filter(({ host }) => !/\.(example\.org|localhost)$/.test(host)),
    [],
  )
})
