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

const silent = () => {}
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
  await t.throwsAsync(download({ urls: [from('missing'), from('other')], sha256 }, path, silent), {
    message: /SHA-256 differs/,
  })
  t.false(existsSync(path))
  await t.throwsAsync(download({ urls: [from('missing')], sha256 }, path, silent), {
    message: 'the server answered 404',
  })
  await download({ urls: [from('other'), from('program')], sha256 }, path, silent)
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
  await download({ urls: ['http://releases.example/program'], sha256 }, join(folder, 'far'), silent, env)
  t.true(readFileSync(join(folder, 'far')).equals(content))
  t.deepEqual(
    proxy.requests.map(({ target }) => target),
    ['releases.example:80'],
  )
  await download({ urls: [`http://127.0.0.1:${port}/program`], sha256 }, join(folder, 'near'), silent, env)
  t.is(proxy.requests.length, 1)
  const url = `https://127.0.0.1:${port}/program`
  await t.throwsAsync(download({ urls: [url], sha256 }, join(folder, 'https'), silent, { HTTP_PROXY: proxy.url }))
  t.is(proxy.requests.length, 1, 'the proxy for http addresses does not get those of https')
})

test('a download goes directly where a variable names no proxy that can be used, and says why, without its text', async t => {
  const server = createServer((_, response) => response.end(content))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const wrong = ['socks5://bob:secret@p:1', 'bob:#secret@p:1', 'http://bob:secret%zz@p:1']
  for (const [number, address] of wrong.entries()) {
    const said: string[] = []
    const say = (line: string) => void said.push(line)
    const path = join(ownFolder(t), `${number}`)
    const env = { http_proxy: address, HTTPS_PROXY: address }
    await download({ urls: [`http://127.0.0.1:${port}/program`], sha256 }, path, say, env)
    t.true(readFileSync(path).equals(content))
    t.is(said.length, 2)
    for (const line of said)
      t.regex(line, /HTTPS?_PROXY is not used for this download: it is no http or https address .*write % and/)
    t.notRegex(said.join(), /bob|secret/)
  }
})

test('the download is pinned by its checksum for every platform', t => {
  for (const platform of ['linux', 'darwin'])
    for (const arch of ['x64', 'arm64']) t.regex(temporalArchive(platform, arch)?.sha256 ?? '', /^[0-9a-f]{64}$/)
  t.is(temporalArchive('plan9', 'x64'), null)
})
