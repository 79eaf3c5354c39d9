import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { PassThrough } from 'node:stream'
import test from 'ava'
import { z } from 'zod'
import { readBody } from '../../../api/http/body.ts'
import { BodyBudget } from '../../../api/http/body-budget.ts'
import { endpoint } from '../../../api/pipeline/endpoint.ts'
import { SenderCounts } from '../../../api/v2/git/senders.ts'
import { bodyBudgets, denseJson, freeBodyBytes, unsignedDeliveries } from '../../../policy/body-budgets.ts'
import { type TestUser, testApi } from '../../kit/actors/api.ts'
import { openBody } from '../../kit/actors/open-body.ts'
import { parsingThreads } from '../../kit/parsing-threads.ts'

const megabyte = 1024 * 1024
const maxBodyBytes = 64 * megabyte
const writes = new EventEmitter()

const write = endpoint({
  name: 'test.write',
  method: 'PUT',
  path: '/v2/test/write',
  summary: 'Takes a large file, and holds it until the test lets go of it',
  auth: { scope: null },
  maxBodyBytes,
  holdsFile: true,
  body: z.object({ content: z.instanceof(Uint8Array), wait: z.boolean() }),
  async handle({ body }) {
    if (!body.wait) return
    const go = once(writes, 'go')
    writes.emit('held')
    await go
  },
})

const api = testApi({ extra: [write] })

const put = (user: TestUser, bytes: number, wait = false) => {
  const body = JSON.stringify({ wait, content: 'x' }) + ' '.repeat(bytes)
  return api().as(user).request('PUT', '/v2/test/write', { body })
}

const open = (user: TestUser) =>
  openBody(`${api().url}/v2/test/write`, {
    method: 'PUT',
    headers: { authorization: user.key },
    declared: maxBodyBytes,
  })

test.serial('slow large bodies of one account delay no other account', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const slow = await Promise.all(Array.from({ length: 6 }, () => open(ana)))
  for (const body of slow) await body.send(1000)
  t.is((await put(bob, 2 * megabyte)).status, 200)
  // More than the share of one account arrives: who goes past it is refused, and it alone. The first ones may have been ended by now.
  const large = await Promise.all([open(ana), open(ana)])
  void Promise.all(large.map(body => body.send(bodyBudgets.json.share * 0.7)))
  t.is(await Promise.race(large.map(body => body.status)), 503)
  t.is((await put(bob, 2 * megabyte)).status, 200)
  t.is((await put(ana, 1000)).status, 200, 'a small one of the same account')
  for (const body of [...slow, ...large]) body.close()
})

test.serial('a body counts until its request has been handled', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const first = put(ana, 40 * megabyte, true)
  await Promise.race([once(writes, 'held'), first])
  t.is(writes.listenerCount('go'), 1)
  t.like(await put(ana, 40 * megabyte), { status: 503, body: { code: 'UPLOAD_BUSY' } })
  t.is((await put(bob, 2 * megabyte)).status, 200)
  writes.emit('go')
  t.is((await first).status, 200)
  t.is((await put(ana, 40 * megabyte)).status, 200)
})

test.serial('a body of over 1 MB is parsed in a thread, those of one account one at a time', async t => {
  const ana = await api().makeUser()
  const threads = parsingThreads(t)
  const answers = await Promise.all([2, 2, 2, 0.5].map(size => put(ana, size * megabyte)))
  t.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 200],
  )
  t.deepEqual(threads(), { started: 3, most: 1 })
})

test.serial(
  'a smaller body of over 5,000 values is parsed in a thread too, and one of over 20,000 refused',
  async t => {
    const ana = await api().makeUser()
    const { bytes, values, maxValues } = denseJson
    /** At least so long, and with so many values. */
    const sent = (size: number, count: number) => {
      const body = JSON.stringify({ wait: false, content: 'x', other: Array(count).fill(true) }) + ' '.repeat(size)
      return api().as(ana).request('PUT', '/v2/test/write', { body })
    }
    const threads = parsingThreads(t)
    t.is((await sent(bytes, values - 10)).status, 200)
    t.is((await sent(0, values)).status, 200, 'it is short')
    t.is(threads().started, 0)
    const answers = await Promise.all([1, 2, 3].map(() => sent(bytes, values)))
    t.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200],
    )
    t.deepEqual(threads(), { started: 3, most: 1 })
    t.like(await sent(bytes, maxValues), { status: 400, body: { code: 'INVALID_JSON_BODY' } })
  },
)

test('the body of a client that has disconnected is given up immediately', async t => {
  const request = Object.assign(new PassThrough(), { socket: { bytesRead: 0 } })
  request.destroy()
  await once(request, 'close')
  const charge = new BodyBudget(bodyBudgets.json).charge(['ana'])
  const reading = readBody(request as never, 1000, { charge }).catch(error => error.code)
  t.is(await Promise.race([reading, new Promise(done => setImmediate(done, 'waits'))]), 'INVALID_JSON_BODY')
})

test('a budget is limited in total and per subject; returned bytes can be used again', t => {
  const budget = new BodyBudget({ bytes: 100, share: 60 })
  const busy = { code: 'UPLOAD_BUSY' }
  const charge = (...subjects: string[]) => {
    const made = budget.charge(subjects)
    made.add(freeBodyBytes)
    return made
  }
  // The first megabyte of each is free, so it is had before.
  const [ana, more, bob] = [charge('ana'), charge('ana', 'here'), charge('bob', 'here')]
  ana.add(50)
  t.throws(() => more.add(11), busy, 'the share of Ana')
  more.end()
  bob.add(50)
  t.throws(() => charge('eve').add(1), busy, 'nothing is left')
  ana.end()
  ana.end()
  t.throws(() => charge('eve', 'here').add(11), busy, 'the share of the address')
  const eve = charge('eve', 'here')
  eve.add(10)
  eve.end()
  bob.end()
  charge('ana').add(60)
  charge('bob').add(40)
})

test('a body that stalls is refused', async t => {
  const budget = new BodyBudget({ bytes: 100, share: 100 })
  const pace = { bytesPerSecond: 1000, overSeconds: 0.2 }
  const ended = new Promise<unknown>(resolve => {
    const server = createServer(async (request, response) => {
      resolve(await readBody(request, 1000, { charge: budget.charge(['ana']), pace }).catch(error => error.code))
      response.destroy()
      server.close()
    })
    server.listen(0, '127.0.0.1', async () => {
      const { port } = server.address() as { port: number }
      const socket = connect(port, '127.0.0.1')
      await once(socket, 'connect')
      socket.on('error', () => {})
      socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nbegun')
    })
  })
  const startedAt = performance.now()
  t.is(await ended, 'INVALID_JSON_BODY')
  t.true(performance.now() - startedAt < 25_000, 'long before its deadline of 30 s')
})

test('senders of wrong signatures are remembered for a minute', t => {
  const senders = new SenderCounts(unsignedDeliveries)
  for (let n = 0; n < unsignedDeliveries.allow; n++) {
    t.false(senders.isOver('a', 1000))
    senders.add('a', 1000)
  }
  t.true(senders.isOver('a', 60_000))
  t.false(senders.isOver('b', 60_000))
  t.false(senders.isOver('a', 61_000))
})
