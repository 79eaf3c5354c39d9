import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { nginxEdge } from '../../activities/edge/nginx.ts'
import { unusedPort } from '../../cli/installation/ports.ts'
import { productArguments } from '../kit/product.ts'
import { ask, startOrigin } from '../kit/servers/origin.ts'

test('the proxy process of an installation serves, is reported as healthy, and finishes requests when it is stopped', async t => {
  const dataDir = await mkdtemp(join(tmpdir(), 'berth-proxy-process-'))
  await chmod(dataDir, 0o711)
  const port = await unusedPort()
  const env = { ...process.env, BERTH_DATA: dataDir, EDGE_PORT: String(port), EDGE_WORKERS: '1' }
  const run = (name: string, ...args: string[]) =>
    spawn(process.execPath, [...productArguments(`workers/${name}`), ...args], { env, stdio: 'ignore' })
  const health = async () => (await once(run('health', 'proxy'), 'exit'))[0]
  t.is(await health(), 1)
  const proxy: ChildProcess = run('proxy')
  const ended = once(proxy, 'exit')
  let reached = () => {}
  const waiting = new Promise<void>(resolve => {
    reached = resolve
  })
  const origin = await startOrigin(async (_, answer) => {
    reached()
    await sleep(500)
    answer.end('finished')
  })
  t.teardown(async () => {
    proxy.kill('SIGTERM')
    await ended
    await origin.stop()
    await rm(dataDir, { recursive: true, force: true })
  })
  const edge = nginxEdge(join(dataDir, 'run/edge/control.sock'))
  for (let attempt = 0; attempt < 400 && !(await edge.listRoutes().catch(() => null)); attempt++) await sleep(25)
  t.is(await health(), 0)
  await edge.setRoute({ host: 'slow.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
  const open = ask(port, 'slow.localhost')
  await waiting
  proxy.kill('SIGTERM')
  t.is((await open).body, 'finished')
  t.deepEqual(await ended, [0, null])
})
