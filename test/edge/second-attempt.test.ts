import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { unusedPort } from '../../cli/installation/ports.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ask } from '../kit/servers/origin.ts'
import { startProxy } from '../kit/servers/proxy.ts'

const appId = '0123456789abcdef01234567'
const address = '127.0.0.1'

test('a GET or HEAD that a port refuses is attempted again after 0.4 s, and nothing with a body is', async t => {
  const proxy = await startProxy()
  t.teardown(proxy.stop)
  const port = await unusedPort()
  const host = 'refused.localhost'
  await proxy.edge.setRoute({ host, appId, address, port })
  const calls = {
    get: { method: 'GET' },
    head: { method: 'HEAD' },
    post: { method: 'POST', body: 'x' },
    'get-with-body': { method: 'GET', body: 'x', headers: { 'content-length': '1' } },
  }
  for (const [label, call] of Object.entries(calls))
    t.is((await ask(proxy.port, host, { ...call, path: `/${label}` })).status, 502)
  const lines = await proxy.accessLog(Object.keys(calls).length)
  const attempts = (label: string) => {
    const { upstream_status: statuses, seconds } = lines.find(({ path }) => path === `/${label}`)!
    return { attempts: String(statuses).split(' : ').length, waited: Number(seconds) >= 0.4 }
  }
  for (const label of ['get', 'head']) t.deepEqual(attempts(label), { attempts: 2, waited: true }, label)
  for (const label of ['post', 'get-with-body']) t.is(attempts(label).attempts, 1, label)
})

test('a GET is answered by a program that begins to listen between the two attempts', async t => {
  const proxy = await startProxy()
  t.teardown(proxy.stop)
  // On a busy machine the program may be late for the second attempt, or early for the first.
  await comesTrue(async () => {
    const port = await unusedPort()
    const host = `late-${port}.localhost`
    await proxy.edge.setRoute({ host, appId, address, port })
    const reply = ask(proxy.port, host)
    await sleep(150)
    const server = createServer((_, answer) => void answer.end('late')).listen(port, address)
    await once(server, 'listening')
    const { status } = await reply
    server.closeAllConnections()
    server.close()
    const [line] = (await proxy.accessLog(1)).filter(one => one.host === host)
    return status === 200 && line?.upstream_status === '502, 502, 502 : 200'
  })
  t.pass()
})
