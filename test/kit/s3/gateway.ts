import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, connect as dial, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import test from 'ava'
import { type TestApi, type TestUser, testApi } from '../actors/api.ts'
import { certificates } from '../servers/certificates.ts'

/** The two ways in which clients reach the gateway. */
export const wires = ['http', 'https'] as const
export type Wire = (typeof wires)[number]

/** What a client has to know. */
export interface S3Access {
  /** The account behind the credentials. */
  user: TestUser
  /** Of the gateway, without a trailing slash. */
  url: string
  region: string
  accessKeyId: string
  secretAccessKey: string
  /** The certificate of the authority behind the gateway's, as a file; undefined without TLS. */
  caFile: string | undefined
}

/** The bucket that tests use, each below a prefix of its own. */
export const bucket = 'private'

/** Call it once at the top level of a test file: the API in this process, whose S3 surface is reached over plain HTTP and over TLS. */
export function testGateway(): { api: () => TestApi; access: (wire: Wire) => Promise<S3Access> } {
  const undo: (() => Promise<unknown>)[] = []
  // Serial, and before that of the API, whose database is removed after it.
  test.serial.after.always('close the gateway', async () => {
    for (const step of undo.reverse()) await step()
  })
  const api = testApi()
  let opened: ReturnType<typeof openGateway> | undefined
  return {
    api,
    async access(wire) {
      opened ??= openGateway(api(), undo)
      return (await opened)[wire]
    },
  }
}

async function openGateway(api: TestApi, undo: (() => Promise<unknown>)[]): Promise<Record<Wire, S3Access>> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-s3-gateway-'))
  undo.push(() => rm(folder, { recursive: true }))
  const tls = await terminateTls(folder, Number(new URL(api.s3Url).port))
  undo.push(tls.stop)
  const user = await api.makeUser()
  const { status, body, text } = await api.blobAs(user).get('/v1/s3/credentials')
  if (status !== 200) throw new Error(`There are no S3 credentials: ${text}`)
  const { access_key_id: accessKeyId, secret_access_key: secretAccessKey, region } = body.response
  const pair = { user, accessKeyId, secretAccessKey }
  return {
    http: { ...pair, url: api.s3Url, region, caFile: undefined },
    // Most programs were written for Amazon's, and have its first region as their default.
    https: { ...pair, url: tls.url, region: 'us-east-1', caFile: tls.caFile },
  }
}

/** Accepts TLS on a port of its own and passes the bytes on as they are, so that signed headers arrive untouched. */
async function terminateTls(folder: string, port: number) {
  const { authority, signed } = certificates(folder)
  const { certificate: caFile } = authority('authority')
  const { certificate, key } = signed('gateway', 'authority', 'localhost')
  const sockets = new Set<Socket>()
  const server = createTlsServer({ cert: readFileSync(certificate), key: readFileSync(key) }, outside => {
    const inside = dial({ port, host: '127.0.0.1', allowHalfOpen: true })
    for (const [socket, other] of [
      [outside, inside],
      [inside, outside],
    ] as const) {
      sockets.add(socket)
      // The end of one direction is passed on by the pipe, a broken connection by closing the other.
      socket.once('error', () => other.destroy())
      socket.once('close', () => sockets.delete(socket) && other.destroySoon())
      socket.pipe(other)
    }
  })
  // A client that does not trust the certificate closes the connection.
  server.on('tlsClientError', () => {})
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const url = `https://localhost:${(server.address() as AddressInfo).port}`
  const stop = () => {
    const end = new Promise(resolve => server.close(resolve))
    for (const socket of sockets) socket.destroy()
    return end
  }
  return { url, caFile, stop }
}
