import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import test from 'ava'
import { testApi } from '../kit/actors/api.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { heldBodies, madeObject } from '../kit/objects/stored-objects.ts'

const api = testApi()

test('readers that take nothing are cut off, hold no body open, and delay no others', async t => {
  t.timeout(120_000)
  const { id } = await madeObject(api(), await api().makeUser(), { bucket: 'public', bytes: randomBytes(40_000_000) })
  const { port } = new URL(api().publicUrl)
  const sockets = await Promise.all(
    Array.from({ length: 50 }, async () => {
      const socket = connect(Number(port), '127.0.0.1')
      await once(socket, 'connect')
      socket.on('error', () => {})
      socket.pause()
      socket.write(`GET /${id} HTTP/1.1\r\nHost: x\r\n\r\n`)
      return socket
    }),
  )
  await comesTrue(async () => (await heldBodies(api())) === 50)
  await comesTrue(async () => {
    t.is((await fetch(`${api().publicUrl}/pub/status`)).status, 200)
    return (await heldBodies(api())) === 0
  })
  for (const socket of sockets) socket.destroy()
})
