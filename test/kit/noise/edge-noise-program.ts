import { request } from 'node:http'
import { connect as connectTls } from 'node:tls'
import { ask, startOrigin } from '../servers/origin.ts'
import { type IsSilent, makeNoiseOnOrder } from './noise-process.ts'

/** How often each kind of noise came to its end, or was refused as it should. */
export type Done = Record<'answers' | 'stored' | 'handshakes' | 'held' | 'refused', number>

export interface Target {
  port: number
  tlsPort: number
  /** A name with a certificate, for handshakes. */
  secureHost: string
  /** The name of the loud application, whose program listens at `originPort`. */
  host: string
  originPort: number
}

const kilobyte = 'x'.repeat(1024)

/** How many clients hold requests open, each from an address of its own. */
const holders = 20
const heldByEach = 50

/**
 * Visitors who flood one application from many addresses: requests without pause, answers that fill its cache, TLS handshakes without
 * end, and more requests held open than it may have.
 */
function noiseOf({ port, tlsPort, secureHost, host, originPort }: Target, isSilent: IsSilent) {
  const done: Done = { answers: 0, stored: 0, handshakes: 0, held: 0, refused: 0 }
  void startOrigin(({ url = '/' }, answer) => {
    if (url.startsWith('/held')) return
    const body = kilobyte.repeat(url.startsWith('/stored') ? 100 : 1)
    answer.writeHead(200, { 'content-length': body.length, 'cache-control': 'public, max-age=3600' }).end(body)
  }, originPort)
  let clients = 0
  const newAddress = () => `127.1.${++clients % 200}.${1 + (clients % 250)}`
  const get = async (path: string) => {
    const { status } = await ask(port, host, { path, from: newAddress() })
    if (status === 200) done[path.startsWith('/stored') ? 'stored' : 'answers']++
    else done.refused++
  }
  let pages = 0
  const hold = async () => {
    const from = newAddress()
    const target = { port, host: '127.0.0.1', localAddress: from, path: '/held', headers: { host }, agent: false }
    const sent = Array.from({ length: heldByEach }, () => {
      const held = request(target, answer => {
        done.refused++
        answer.resume()
      })
      return held.on('error', () => {}).end()
    })
    for (let n = 0; n < 60 && !isSilent(); n++) await new Promise(resolve => setTimeout(resolve, 50))
    done.held += heldByEach
    for (const held of sent) held.destroy()
  }
  const greet = () =>
    new Promise<void>(resolve => {
      const socket = connectTls({ port: tlsPort, host: '127.0.0.1', servername: secureHost, rejectUnauthorized: false })
      socket.once('secureConnect', () => {
        done.handshakes++
        socket.destroy()
      })
      socket.on('error', () => {}).once('close', () => resolve())
    })
  const acts = [
    ...Array.from({ length: 20 }, () => () => get('/page')),
    ...Array.from({ length: 4 }, () => async () => {
      const path = `/stored/${++pages}`
      await get(path)
      await get(path)
    }),
    ...Array.from({ length: 8 }, () => greet),
    ...Array.from({ length: holders }, () => hold),
  ]
  return { done, acts }
}

makeNoiseOnOrder(noiseOf)
