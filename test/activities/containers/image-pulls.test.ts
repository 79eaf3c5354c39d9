import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { type DockerHostOptions, dockerHost } from '../../../activities/containers/docker/host.ts'
import { ImageUnavailable } from '../../../activities/containers/port.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { dockerAddress } from '../../kit/servers/docker.ts'
import { tarOf, testRegistry } from '../../kit/servers/registry.ts'

/* Images that the machine's real engine pulls from a registry of the test, or loads as a recipe would have made them. */

const engine = (makeRootfs: DockerHostOptions['makeRootfs'] = async () => null) =>
  dockerHost({ dockerHost: dockerAddress, makeRootfs })

async function registry(t: ExecutionContext, layersMb: number[]) {
  const made = await testRegistry(layersMb)
  t.teardown(async () => {
    made.close()
    await removeImage(made.image)
  })
  return made
}

function removeImage(image: string): Promise<void> {
  const url = new URL(dockerAddress.replace(/^tcp:/, 'http:'))
  const target = url.protocol === 'unix:' ? { socketPath: url.pathname } : { host: url.hostname, port: url.port }
  return new Promise((done, failed) => {
    request({ ...target, method: 'DELETE', path: `/images/${image}?force=1` }, response =>
      response.resume().once('end', done),
    )
      .once('error', failed)
      .end()
  })
}

test('a pull reports megabytes and layers while it goes on', async t => {
  t.timeout(110_000)
  const { image, hurry } = await registry(t, [12, 3])
  const lines: string[] = []
  const host = engine()
  const pulled = host.ensureImage(image, line => lines.push(line))
  await comesTrue(() => lines.some(line => / [1-9]\d* of \d+ MB, \d of 2 layers$/.test(line)))
  hurry()
  await pulled
  t.is(lines[0], `pulling ${image}`)
  t.is(lines.at(-1), `pulling ${image}: 15 of 15 MB, 2 of 2 layers`)
  t.regex((await host.imageId(image)) ?? '', /^sha256:/)
  t.true(await host.prepareImage(image))
})

test('an image that nobody waits for is given up for one that is requested, and pulled another time', async t => {
  t.timeout(110_000)
  const idle = await registry(t, [60])
  const wanted = await registry(t, [1])
  const host = engine()
  const prepared = host.prepareImage(idle.image)
  await comesTrue(() => idle.sent() > 0)
  wanted.hurry()
  await host.ensureImage(wanted.image)
  t.false(await prepared)
  t.is(await host.imageId(idle.image), null)
  idle.hurry()
  t.true(await host.prepareImage(idle.image))
  t.truthy(await host.imageId(idle.image))
})

test('an image that no registry has is made, with what its maker reports, and loaded', async t => {
  t.timeout(110_000)
  const folder = ownFolder(t)
  const image = `berth/tiny-${randomBytes(4).toString('hex')}:1`
  t.teardown(() => removeImage(image))
  const host = engine(async (name, onProgress) => {
    onProgress(`${name}: installing packages`)
    const tarball = join(folder, 'rootfs.tar')
    writeFileSync(tarball, tarOf('hello', Buffer.from('hello')))
    return { tarball, changes: ['CMD ["/none"]'] }
  })
  const lines: string[] = []
  await host.ensureImage(image, line => lines.push(line))
  t.deepEqual(lines, [`${image}: installing packages`, 'loading it into the engine'])
  t.truthy(await host.imageId(image))
  let made = 0
  const slower = engine(async () => {
    made++
    await host.ensureImage(image)
    return { tarball: join(folder, 'missing.tar'), changes: [] }
  })
  await removeImage(image)
  await slower.ensureImage(image)
  t.is(made, 1)
  t.truthy(await host.imageId(image), 'what another process has loaded meanwhile is not loaded again')
  await t.throwsAsync(engine(async () => Promise.reject(new Error('no tool'))).prepareImage(`${image}0`), {
    instanceOf: ImageUnavailable,
    message: /no tool/,
  })
})
