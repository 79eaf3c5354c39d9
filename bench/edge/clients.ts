import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:tls'

/** Does `count` pieces of work, a few at a time. Rejects with the first that fails. */
async function many(count: number, atATime: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0
  const one = async () => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: atATime }, one))
}

/** Full handshakes, each on a connection of its own, under the names in turn. */
export const handshakes = (port: number, ca: string, names: readonly string[], count: number): Promise<void> =>
  many(count, 8, async index => {
    const socket = connect({ host: '127.0.0.1', port, ca, servername: names[index % names.length] })
    await once(socket, 'secureConnect')
    socket.destroy()
  })

/** Requests by HTTP/1.1 without TLS, on 16 connections. */
export async function plainRequests(port: number, host: string, count: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  await many(count, 16, async () => {
    const [answer] = await once(get({ host: '127.0.0.1', port, headers: { host }, agent }), 'response')
    if (answer.statusCode !== 200) throw new Error(`${host} answered ${answer.statusCode}`)
    answer.resume()
    await once(answer, 'end')
  })
  agent.destroy()
}

/** Requests by HTTP/2 over TLS, 16 streams at a time, and 500 on each connection. */
export async function http2Requests(port: number, host: string, ca: string, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent += 500) {
    const session = connectHttp2(`https://127.0.0.1:${port}`, { ca, servername: host })
    await many(Math.min(500, count - sent), 16, async () => {
      const stream = session.request({ ':path': '/', ':authority': host })
      const [headers] = await once(stream, 'response')
      if (headers[':status'] !== 200) throw new Error(`${host} answered ${headers[':status']}`)
      stream.resume()
      await once(stream, 'end')
    })
    session.close()
  }
}
