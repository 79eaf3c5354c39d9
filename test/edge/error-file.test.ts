import { once } from 'node:events'
import { appendFile, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import test from 'ava'
import { errorsName } from '../../edge/log-format.ts'
import { applicationErrors } from '../../policy/installation/process-logs.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ask } from '../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

const appId = '0123456789abcdef01234567'

/** A route to a program that resets each connection once it has read a request. */
async function resettingRoute(proxy: TestProxy, host: string) {
  const server = createServer(socket => socket.once('data', () => socket.resetAndDestroy()).on('error', () => {}))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as { port: number }
  await proxy.edge.setRoute({ host, appId, address: '127.0.0.1', port })
  return () => server.close()
}

test('an application that resets each connection writes no line into the log of the process, and its own has a bound', async t => {
  t.timeout(300_000)
  const proxy = await startProxy()
  t.teardown(proxy.stop)
  t.teardown(await resettingRoute(proxy, 'a.localhost'))
  const path = join(proxy.config.dataDir, 'proxy', errorsName)
  const before = proxy.errors()
  const fails = async (at: string) =>
    t.is((await ask(proxy.port, 'a.localhost', { method: 'POST', body: 'x', path: at })).status, 502)
  await fails('/first')
  t.regex(proxy.applicationErrors(), /\[error\].*Connection reset by peer.*\/first/)
  let bytes = 0
  // Each line has 2048 bytes.
  const flood = async () => {
    while (bytes <= applicationErrors.bytes) {
      await Promise.all(Array.from({ length: 50 }, () => fails(`/${'x'.repeat(3000)}`)))
      bytes += 50 * 2048
    }
  }
  await flood()
  t.true(bytes > applicationErrors.bytes)
  await comesTrue(async () => (await stat(path)).size < applicationErrors.bytes / 2)
  await fails('/later')
  await comesTrue(() => /\/later/.test(proxy.applicationErrors()))
  t.false(/\/first/.test(proxy.applicationErrors()), 'what is emptied is gone')
  t.is(proxy.errors(), before)
})

test('the file is bounded after a reload, and by a proxy that begins with a full one', async t => {
  const proxy = await startProxy()
  t.teardown(proxy.stop)
  t.teardown(await resettingRoute(proxy, 'a.localhost'))
  const path = join(proxy.config.dataDir, 'proxy', errorsName)
  const fill = () => appendFile(path, 'x'.repeat(applicationErrors.bytes + 1))
  const isEmptied = () => comesTrue(async () => (await stat(path)).size < 10_000)
  const fails = (at: string) => ask(proxy.port, 'a.localhost', { method: 'POST', body: 'x', path: at })
  proxy.reload()
  await fill()
  await isEmptied()
  await proxy.kill('SIGKILL')
  await fill()
  await proxy.start()
  await isEmptied()
  t.is((await fails('/again')).status, 502)
  await comesTrue(() => /^[^x]*\/again/.test(proxy.applicationErrors()))
  t.true((await stat(path)).size < 10_000)
})
