import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import test from 'ava'
import { choosePorts, freePort, portDefaults, unusedPort } from '../../../cli/installation/ports.ts'

test('a port in use is replaced by the next free one, except a port that a setting names', async t => {
  const taken = await freePort(0)
  const server = createServer().listen(taken, '127.0.0.1')
  t.teardown(() => server.close())
  await new Promise(resolve => server.once('listening', resolve))
  const ports = await choosePorts({ API_PORT: String(taken) }, { EDGE_PORT: taken })
  t.is(ports.API_PORT, taken)
  t.not(ports.EDGE_PORT, taken)
  await t.throwsAsync(freePort(taken))
})

test('the ports of the last start are used again, and no two are the same', async t => {
  const last = await freePort(0)
  const ports = await choosePorts({}, { EDGE_PORT: last })
  t.is(ports.EDGE_PORT, last)
  t.is(new Set(Object.values(ports)).size, Object.keys(portDefaults).length)
})

test('a port that another process has chosen is not used, even before it listens', async t => {
  const port = await freePort(randomInt(10_000, 32_000))
  const script = `import { choosePorts } from './cli/installation/ports.ts'; console.log((await choosePorts({}, { EDGE_PORT: ${port} })).EDGE_PORT); setInterval(() => {}, 1000)`
  const other = spawn(process.execPath, ['--import=tsx', '--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => other.kill())
  const theirs = await new Promise<string>(resolve => other.stdout.once('data', data => resolve(String(data))))
  t.is(Number(theirs), port)
  t.not((await choosePorts({}, { EDGE_PORT: port })).EDGE_PORT, port)
})

test('a port for a part of a test is below the kernel’s range, and is used once', async t => {
  const ports = await Promise.all(Array.from({ length: 20 }, () => unusedPort()))
  t.is(new Set(ports).size, ports.length)
  t.true(
    ports.every(port => port >= 10_000 && port < 32_000),
    String(ports),
  )
})
