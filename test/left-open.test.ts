import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { leftOpen } from './kit/left-open.ts'

const here = fileURLToPath(import.meta.url)

test('anything left open is reported: a timer, a server, a connection, a process, a file', async t => {
  t.deepEqual(await leftOpen(10), [])
  const timer = setTimeout(() => {}, 600_000)
  t.deepEqual(await leftOpen(0), ['Timeout'])
  clearTimeout(timer)

  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.regex((await leftOpen(0)).join(), /^server on .*127\.0\.0\.1[^,]*,[^,]*,[^,]*$/)
  const near = connect((server.address() as { port: number }).port, '127.0.0.1')
  const [[far]] = await Promise.all([once(server, 'connection'), once(near, 'connect')])
  t.is((await leftOpen(0)).filter(what => what.startsWith('socket')).length, 2)
  near.destroy()
  far.destroy()
  server.close()

  const child = spawn('sleep', ['600'], { stdio: 'ignore' })
  t.true((await leftOpen(0)).some(what => what === `process ${child.pid}: sleep 600`))
  child.kill()
  await once(child, 'exit')

  const file = await open(here)
  t.true((await leftOpen(0)).includes(`open: ${here}`))
  await file.close()
  t.deepEqual(await leftOpen(10), [], 'what is closed is not reported')
})
