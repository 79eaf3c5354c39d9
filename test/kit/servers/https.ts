import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2'
import { request } from 'node:https'
import { type ConnectionOptions, connect, type PeerCertificate } from 'node:tls'
import { issueCertificate, makeAuthority } from '../../../activities/certificates/authority.ts'
import type { ServedCertificate } from '../../../activities/edge/port.ts'
import type { Call, Seen } from './origin.ts'

export interface Issuer {
  /** What clients trust, PEM. */
  root: string
  /** A new certificate of a host name, or of `*.` and a parent. */
  issue(host: string, more?: Partial<ServedCertificate>): Promise<ServedCertificate>
}

/** An authority of its own. */
export async function testIssuer(): Promise<Issuer> {
  const authority = await makeAuthority()
  return {
    root: authority.certificate,
    async issue(host, more) {
      const request = { kind: 'server', commonName: host, names: [host], addresses: [], days: 30 } as const
      const { certificate, privateKey } = await issueCertificate(authority, request)
      return { host, version: randomUUID(), chain: certificate, key: privateKey, ...more }
    },
  }
}

export interface Handshake {
  certificate: PeerCertificate
  protocol: string | null
  alpn: string | false | null
}

/** Connects to a port under a name and ends the connection after the handshake. Rejects when there is none, or nothing to trust. */
export async function handshake(port: number, servername: string, options: ConnectionOptions): Promise<Handshake> {
  const socket = connect({ host: '127.0.0.1', port, servername, ...options })
  try {
    await once(socket, 'secureConnect')
    const { alpnProtocol: alpn } = socket
    return { certificate: socket.getPeerCertificate(), protocol: socket.getProtocol(), alpn }
  } finally {
    socket.destroy()
  }
}

/** One request by https on a connection of its own, by HTTP/1.1. */
export function askHttps(
  port: number,
  host: string,
  ca: string,
  call: Call = {},
  options: ConnectionOptions = {},
): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const { method = 'GET', path = '/', body } = call
    const target = { port, host: '127.0.0.1', servername: host, localAddress: call.from, ca, ...options }
    const sent = request({ ...target, method, path, agent: false, headers: { host, ...call.headers } })
    sent.on('error', reject)
    sent.on('response', async answer => {
      const chunks: Buffer[] = []
      try {
        for await (const chunk of answer) chunks.push(chunk)
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks).toString() })
      } catch (error) {
        reject(error)
      }
    })
    sent.end(body)
  })
}

/** A connection of HTTP/2 under a name. */
export async function http2Session(port: number, host: string, ca: string): Promise<ClientHttp2Session> {
  const session = connectHttp2(`https://127.0.0.1:${port}`, { ca, servername: host })
  await once(session, 'connect')
  return session
}

/** One request on a connection of HTTP/2. */
export async function askHttp2(session: ClientHttp2Session, host: string, call: Call = {}): Promise<Seen> {
  const { method = 'GET', path = '/', body } = call
  const stream = session.request({ ':method': method, ':path': path, ':authority': host, ...call.headers })
  stream.end(body)
  const [headers] = await once(stream, 'response')
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return { status: headers[constants.HTTP2_HEADER_STATUS], headers, body: Buffer.concat(chunks).toString() }
}
