import test from 'ava'
import { realDocker } from '../../kit/servers/docker.ts'

const docker = realDocker()
const share = `sockets-${docker.run}`
test.before(async () => {
  await docker.prepare()
  await docker.host.ensureImage('berth/python:3.11')
})
test.after.always(async () => {
  await docker.clean()
  await docker.host.removeShare(share)
})

/** Fills connections of a program to itself that it never reads from, and prints how many bytes the kernel accepted. */
const fills = `
import socket
server = socket.create_server(('127.0.0.1', 0), backlog=4096)
held, taken, piece = [], 0, bytes(1 << 20)
for _ in range(200):
  one = socket.create_connection(server.getsockname())
  other = server.accept()[0]
  one.setblocking(False)
  held += [one, other]
  try:
    while True: taken += one.send(piece)
  except BlockingIOError: pass
print('taken', taken)`

test('the kernel memory of a container’s sockets is bounded by its memory', async t => {
  const memoryMb = 256
  let output = ''
  const spec = docker.spec('', { image: 'berth/python:3.11', command: ['python3', '-c', fills], memoryMb, share })
  const take = (text: string) => {
    output += text
  }
  const { exitCode } = await docker.host.runToEnd(spec, take, AbortSignal.timeout(120_000))
  t.is(exitCode, 0, output)
  const taken = Number(/taken (\d+)/.exec(output)?.[1])
  t.true(taken < memoryMb * 1024 * 1024, `${taken} bytes`)
})
