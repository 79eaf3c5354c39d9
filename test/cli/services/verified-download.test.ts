import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import test from 'ava'
import { download } from '../../../cli/services/verified-download.ts'
import { temporalArchive } from '../../../policy/installation/temporal-release.ts'
import { ownFolder } from '../../kit/folders.ts'
import { startConnectProxy } from '../../kit/git/connect-proxy.ts'

const content = Buffer.alloc(300_000, 'program')
const sha256 = createHash('sha256').update(content).digest('hex')

test('a download is accepted only if it is the released program', async t => {
  const server = createServer((request, response) => {
    if (request.url === '/missing') response.writeHead(404).end()
    else response.end(request.url === '/other' ? Buffer.concat([content, Buffer.from('!')]) : content)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const from = (name: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/${name}`
  const path = join(ownFolder(t), 'program')
  await t.throwsAsync(download({ urls: [from('missing'), from('other')], sha256 }, path), {
    message: /SHA-256 differs/,
  })
  t.false(existsSync(path))
  await t.throwsAsync(download({ urls: [from('missing')], sha256 }, path), { message: 'the server answered 404' })
  await download({ urls: [from('other'), from('program')], sha256 }, path)
  t.true(readFileSync(path).equals(content))
})

test('a download passes the proxy of the environment, with its credentials, unless NO_PROXY names the server', async t => {
  const server = createServer((_, response) => response.end(content))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const proxy = await startConnectProxy({ credentials: 'ana:p@ss' })
  t.teardown(async () => {
    server.close()
    await proxy.stop()
  })
  proxy.servers.set('releases.example:80', port)
  const folder = ownFolder(t)
  const env = { http_proxy: proxy.url.replace('http://', 'ana:p%40ss@'), NO_PROXY: '127.0.0.1' }
  await download({ urls: ['http://releases.example/program'], sha256 }, join(folder, 'far'), env)
  t.true(readFileSync(join(folder, 'far')).equals(content))
  t.deepEqual(
    proxy.requests.map(({ target }) => target),
    ['releases.example:80'],
  )
  await download({ urls: [`http://127.0.0.1:${port}/program`], sha256 }, join(folder, 'near'), env)
  t.is(proxy.requests.length, 1)
  const wrong = download({ urls: [], sha256 }, join(folder, 'wrong'), { HTTPS_PROXY: 'bob:#secret@p:1' })
  await t.throwsAsync(wrong, { message: 'HTTPS_PROXY is an address that cannot be read' })
})

test('the download is pinned by its checksum for every platform', t => {
  for (const platform of ['linux', 'darwin'])
    for (const arch of ['x64', 'arm64']) t.regex(temporalArchive(platform, arch)?.sha256 ?? '', /^[0-9a-f]{64}$/)
  t.is(temporalArchive('plan9', 'x64'), null)
})
