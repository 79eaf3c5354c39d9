import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

export interface OpenBody {
  /** Of the answer; null when the line ended without one. */
  status: Promise<number | null>
  /** Sends more of the body; resolves once the system has taken it. */
  send(bytes: number | Buffer): Promise<void>
  close(): void
}

export interface OpenBodyOptions {
  method?: string
  headers?: Record<string, string>
  /** Length that it declares. */
  declared: number
}

/** A request that has sent its head, and of its body only what `send` gets. */
export async function openBody(
  url: string,
  { method = 'POST', headers = {}, declared }: OpenBodyOptions,
): Promise<OpenBody> {
  const { hostname, port, pathname, search } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  const status = statusOf(socket)
  const lines = Object.entries({ host: 'x', ...headers, 'content-length': String(declared) })
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  await sent(socket, `${method} ${pathname}${search} HTTP/1.1\r\n${head}\r\n`)
  return {
    status,
    send: bytes => sent(socket, typeof bytes === 'number' ? Buffer.alloc(bytes, ' ') : bytes),
    close: () => void socket.destroy(),
  }
}

function sent(socket: Socket, bytes: string | Buffer): Promise<void> {
  return new Promise(resolve => socket.write(bytes, () => resolve()))
}

function statusOf(socket: Socket): Promise<number | null> {
  return new Promise(resolve => {
    let head = ''
    socket.on('data', piece => {
      head += piece
      const status = /^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]
      if (status) resolve(Number(status))
    })
    socket.on('error', () => {}).on('close', () => resolve(null))
  })
}
