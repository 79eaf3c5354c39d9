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
  t.is(asked.length, 2, 'and it is tried again for who asks later')
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
  await t.notThrowsAsync(host.ensureImage('berth/redis:8'), 'it has no program of ours')
  for (const other of [undefined, 'older']) {
    program = other
    await t.throwsAsync(host.ensureImage(standIn), { instanceOf: ImageUnavailable })
  }
  t.deepEqual(made, [standIn, standIn])
  program = ownProgram(standIn) ?? 'none'
  await t.notThrowsAsync(host.ensureImage(standIn))
  t.is(made.length, 2)
})
