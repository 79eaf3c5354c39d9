import { createServer, type ServerResponse } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { dockerHost } from '../../../activities/containers/docker/host.ts'
import { ImageOnItsWay, imageWithin } from '../../../activities/containers/image-wait.ts'
import { ImageUnavailable } from '../../../activities/containers/port.ts'
import { withCode } from '../../../activities/failures.ts'
import { ownProgram, programLabel } from '../../../runtimes/database-recipes.ts'
import { listening } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'

/** An engine without images; `pull` answers pulls. */
async function engineWith(t: ExecutionContext, pulls: { atOnce: number; silentSeconds: number; seconds: number }) {
  const asked: string[] = []
  const open: ServerResponse[] = []
  const tagged: string[] = []
  const server = createServer((request, response) => {
    const url = new URL(request.url!, 'http://engine')
    if (request.method !== 'POST') return response.writeHead(404).end('{"message":"no such image"}')
    if (!url.searchParams.has('fromImage')) {
      tagged.push(`${url.searchParams.get('repo')}:${url.searchParams.get('tag')}`)
      return response.writeHead(201).end()
    }
    asked.push(url.searchParams.get('fromImage')!)
    open.push(response)
    response.write('{"status":"Pulling"}\n')
  })
  const address = await listening(server)
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const host = dockerHost({ dockerHost: address, makeRootfs: async () => null, pulls })
  return { host, asked, open, tagged }
}

test('a pull without progress is given up, with the same error for all that wait for the image', async t => {
  t.timeout(60_000)
  const { host, asked } = await engineWith(t, { atOnce: 3, silentSeconds: 2, seconds: 600 })
  const all = [1, 2, 3].map(() =>
    t.throwsAsync(host.ensureImage('silent:1'), { instanceOf: ImageUnavailable, message: /within 2 s/ }),
  )
  await Promise.all(all)
  t.deepEqual(asked, ['silent'])
  await t.throwsAsync(host.ensureImage('silent:1'), { instanceOf: ImageUnavailable })
  t.is(asked.length, 2, 'and it is tried again for a later caller')
})

test('a pull with endless progress is given up too', async t => {
  t.timeout(60_000)
  const { host, open } = await engineWith(t, { atOnce: 3, silentSeconds: 600, seconds: 1 })
  const timer = setInterval(() => open[0]?.write('{"status":"Downloading"}\n'), 20)
  t.teardown(() => clearInterval(timer))
  await t.throwsAsync(host.ensureImage('slow:1'), { instanceOf: ImageUnavailable, message: /within 1 s/ })
})

test('few images are pulled concurrently; a command waits a limited time, and the pull continues', async t => {
  t.timeout(60_000)
  const { host, asked, open } = await engineWith(t, { atOnce: 1, silentSeconds: 600, seconds: 600 })
  const forEver = new AbortController()
  await t.throwsAsync(imageWithin(host, 'one:1', { seconds: 0.2, signal: forEver.signal }), {
    instanceOf: ImageOnItsWay,
  })
  t.like(withCode(new ImageOnItsWay('soon')), { type: 'ACTION_FAILED', nonRetryable: false, nextRetryDelay: '5s' })
  await comesTrue(() => asked.length >= 1)
  const second = imageWithin(host, 'two:1', { seconds: null, signal: forEver.signal })
  const cancel = new AbortController()
  const cancelled = imageWithin(host, 'two:1', { seconds: null, signal: cancel.signal })
  cancel.abort(new Error('no longer wanted'))
  await t.throwsAsync(cancelled, { message: 'no longer wanted' })
  // Meanwhile the second one would have been requested.
  for (let n = 0; n < 20; n++) await host.inspect('nobody')
  t.deepEqual(asked, ['one'])
  open[0]!.end('{"status":"Done"}\n')
  await comesTrue(() => asked.length >= 2)
  open[1]!.end('{"status":"Done"}\n')
  await t.notThrowsAsync(second)
})

test('everyone who waits for an image is shown how far it is, also who comes later', async t => {
  t.timeout(60_000)
  const { host, open } = await engineWith(t, { atOnce: 1, silentSeconds: 600, seconds: 600 })
  const [first, later, queued]: string[][] = [[], [], []]
  const one = host.ensureImage('one:1', line => first!.push(line))
  await comesTrue(() => open.length === 1)
  const event = (id: string, status: string, current?: number, total?: number) =>
    open[0]!.write(`${JSON.stringify({ id, status, progressDetail: { current, total } })}\n`)
  event('1', 'Pulling from library/one')
  for (const layer of ['a', 'b', 'c']) event(layer, 'Pulling fs layer')
  event('a', 'Already exists')
  event('b', 'Downloading', 3 * 2 ** 20, 20 * 2 ** 20)
  await comesTrue(() => first!.at(-1) === 'pulling one:1: 3 of 20 MB, 1 of 3 layers')
  const two = host.ensureImage('one:1', line => later!.push(line))
  const other = host.ensureImage('two:1', line => queued!.push(line))
  await comesTrue(() => later!.length === 1 && queued!.length === 1)
  t.deepEqual(later, ['pulling one:1: 3 of 20 MB, 1 of 3 layers'])
  t.deepEqual(queued, ['waiting for other images'])
  event('b', 'Download complete')
  event('b', 'Pull complete')
  await comesTrue(() => later!.at(-1) === 'pulling one:1: 20 of 20 MB, 2 of 3 layers')
  open[0]!.end()
  await Promise.all([one, two])
  await comesTrue(() => open.length === 2)
  open[1]!.end('{"status":"Done"}\n')
  await other
  t.is(queued![1], 'pulling two:1')
})

test('an image that nobody waits for gives way to one that is requested, and is taken over when it is requested itself', async t => {
  t.timeout(60_000)
  const { host, asked, open } = await engineWith(t, { atOnce: 1, silentSeconds: 600, seconds: 600 })
  const idle = host.prepareImage('idle:1')
  await comesTrue(() => open.length === 1)
  const closed = new Promise<void>(done => open[0]!.once('close', () => done()))
  const wanted = host.ensureImage('wanted:1')
  t.false(await idle)
  await closed
  await comesTrue(() => open.length === 2)
  t.false(await host.prepareImage('idle:1'), 'it does not begin while another is prepared')
  t.deepEqual(asked, ['idle', 'wanted'])
  open[1]!.end('{"status":"Done"}\n')
  await wanted

  const taken = host.prepareImage('idle:1')
  await comesTrue(() => open.length === 3)
  const lines: string[] = []
  const waits = host.ensureImage('idle:1', line => lines.push(line))
  await comesTrue(() => lines.length === 1)
  const third = host.ensureImage('third:1')
  await comesTrue(() => open.length === 4)
  for (const response of open.slice(2)) response.end('{"status":"Done"}\n')
  t.true(await taken)
  await Promise.all([waits, third])
  t.deepEqual(asked, ['idle', 'wanted', 'idle', 'third'])
})

test('a caller that requests an image whose preparation is giving way still gets the image', async t => {
  t.timeout(60_000)
  const { host, asked, open } = await engineWith(t, { atOnce: 3, silentSeconds: 600, seconds: 600 })
  const idle = host.prepareImage('idle:1')
  await comesTrue(() => open.length === 1)
  const both = [host.ensureImage('wanted:1'), host.ensureImage('idle:1')]
  t.false(await idle)
  await comesTrue(() => open.length === 3)
  t.deepEqual([...asked].sort(), ['idle', 'idle', 'wanted'])
  for (const response of open.slice(1)) response.end('{"status":"Done"}\n')
  await Promise.all(both)
})

test('the end of a host gives up what it prepares, unless someone waits for it', async t => {
  t.timeout(60_000)
  const { host, open } = await engineWith(t, { atOnce: 3, silentSeconds: 600, seconds: 600 })
  const ending = new AbortController()
  const idle = t.throwsAsync(host.prepareImage('idle:1', ending.signal), { message: 'the host ends' })
  await comesTrue(() => open.length === 1)
  const closed = new Promise<void>(done => open[0]!.once('close', () => done()))
  ending.abort(new Error('the host ends'))
  await Promise.all([idle, closed])
  const second = new AbortController()
  const taken = host.prepareImage('idle:1', second.signal)
  await comesTrue(() => open.length === 2)
  const lines: string[] = []
  const waits = host.ensureImage('idle:1', line => lines.push(line))
  await comesTrue(() => lines.length === 1)
  second.abort(new Error('the host ends'))
  open[1]!.end('{"status":"Done"}\n')
  t.true(await taken)
  await waits
})

test('the end of a host ends what makes an image that nobody waits for, but a request for another does not', async t => {
  const calls: { signal: AbortSignal; end(): void }[] = []
  const makeRootfs = (_: string, __: unknown, signal?: AbortSignal) =>
    new Promise<null>((done, failed) => {
      calls.push({ signal: signal!, end: () => done(null) })
      signal?.addEventListener('abort', () => failed(new Error('killed')))
    })
  const server = createServer((_, response) => response.writeHead(404).end('{"message":"no such image"}'))
  const address = await listening(server)
  t.teardown(() => server.close())
  const host = dockerHost({ dockerHost: address, makeRootfs })
  const ending = new AbortController()
  const idle = t.throwsAsync(host.prepareImage('berth/mongo-stand-in:8', ending.signal), { message: 'the host ends' })
  await comesTrue(() => calls.length === 1)
  const other = t.throwsAsync(host.ensureImage('other:1'), { instanceOf: ImageUnavailable })
  await comesTrue(() => calls.length === 2)
  t.false(calls[0]!.signal.aborted)
  calls[1]!.end()
  await other
  ending.abort(new Error('the host ends'))
  await idle
})

test('images of databases are pulled by their published names and tagged; the stand-in is never pulled', async t => {
  t.timeout(60_000)
  const { host, asked, open, tagged } = await engineWith(t, { atOnce: 3, silentSeconds: 600, seconds: 600 })
  const images = ['berth/postgres:17', 'berth/redis:7', 'berth/mongo:8', 'berth/node:22']
  for (const [n, image] of images.entries()) {
    const here = host.ensureImage(image)
    await comesTrue(() => open.length > n)
    open[n]!.end('{"status":"Done"}\n')
    await here
  }
  t.deepEqual(asked, ['postgres', 'redis', 'mongo', 'node'])
  t.deepEqual(tagged, images)
  await t.throwsAsync(host.ensureImage('berth/mongo-stand-in:8'), {
    instanceOf: ImageUnavailable,
    message: /no registry has it/,
  })
  t.is(asked.length, 4)
})

test('an image with an older version of our program is made anew, one with the present version is not', async t => {
  let program: string | undefined
  const server = createServer((_, response) =>
    response.end(JSON.stringify({ Config: { Labels: program && { [programLabel]: program } } })),
  )
  const address = await listening(server)
  t.teardown(() => server.close())
  const made: string[] = []
  const makeRootfs = async (image: string) => {
    made.push(image)
    return null
  }
  const host = dockerHost({ dockerHost: address, makeRootfs })
  const standIn = 'berth/mongo-stand-in:8'
  await t.notThrowsAsync(host.ensureImage('berth/redis:8'), 'it has no program of Berth')
  for (const other of [undefined, 'older']) {
    program = other
    await t.throwsAsync(host.ensureImage(standIn), { instanceOf: ImageUnavailable })
  }
  t.deepEqual(made, [standIn, standIn])
  program = ownProgram(standIn) ?? 'none'
  await t.notThrowsAsync(host.ensureImage(standIn))
  t.is(made.length, 2)
})

test('images with older versions of our programs are removed, but not those of a container or of a database', async t => {
  const [removed, filters]: [string[], string[]] = [[], []]
  let listed = ['used', 'pinned', 'gone', 'broken', 'old']
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url!, 'http://engine')
    if (request.method === 'GET') {
      filters.push(searchParams.get('filters')!)
      return response.end(JSON.stringify(listed.map(Id => ({ Id }))))
    }
    const image = pathname.split('/').at(-1)!
    removed.push(`${request.method} ${image}`)
    response.writeHead({ used: 409, gone: 404, broken: 500 }[image] ?? 200).end('[]')
  })
  const address = await listening(server)
  t.teardown(() => server.close())
  const host = dockerHost({ dockerHost: address, makeRootfs: async () => null })
  await host.removeReplacedImages(async () => ['pinned', 'another'])
  t.deepEqual(removed, ['DELETE used', 'DELETE gone', 'DELETE broken', 'DELETE old'])
  t.deepEqual(
    filters.map(text => JSON.parse(text)),
    [{ dangling: ['true'], label: [programLabel] }],
  )
  listed = []
  await t.notThrowsAsync(host.removeReplacedImages(() => Promise.reject(new Error('nothing to be compared with'))))
})
