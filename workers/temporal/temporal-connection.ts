import { readFileSync } from 'node:fs'
import { connect, type ConnectionOptions as SocketOptions } from 'node:tls'
import { Connection } from '@temporalio/client'
import type { Logger } from 'pino'
import type { Config } from '../../policy/config.ts'

export type TemporalAccess = Pick<Config, 'temporalAddress' | 'temporalTls' | 'temporalApiKey'>

/** The options of a connection to Temporal, for clients and for workers. Throws an Error that names a missing file. */
export function temporalConnection({ temporalAddress: address, temporalTls, temporalApiKey }: TemporalAccess) {
  if (!temporalTls) return { address }
  const { ca, certificate, key, serverName } = pemsOf(temporalTls)
  return {
    address,
    tls: {
      ...(ca && { serverRootCACertificate: ca }),
      ...(certificate && key && { clientCertPair: { crt: certificate, key } }),
      ...(serverName && { serverNameOverride: serverName }),
    },
    ...(temporalApiKey && { apiKey: temporalApiKey }),
  }
}

function pemsOf({ ca, certificate, key, serverName }: NonNullable<TemporalAccess['temporalTls']>) {
  return {
    ca: pemOf('TEMPORAL_TLS_CA', ca),
    certificate: pemOf('TEMPORAL_TLS_CERT', certificate),
    key: pemOf('TEMPORAL_TLS_KEY', key),
    serverName,
  }
}

/** In an environment file the line ends of a PEM text are written as \n. */
function pemOf(name: string, setting: string | null): Buffer | null {
  if (setting === null) return null
  if (setting.startsWith('-----BEGIN')) return Buffer.from(setting.replaceAll('\\n', '\n'))
  try {
    return readFileSync(setting)
  } catch (error) {
    throw new Error(`The file that the setting ${name} names cannot be read: ${(error as Error).message}`)
  }
}

/** Opens a client's connection. If TLS can never succeed, rejects with what to do. */
export async function connectTemporal(access: TemporalAccess, connectTimeout: number): Promise<Connection> {
  if (access.temporalTls) await assertTlsPossible(access)
  try {
    return await Connection.connect({ ...temporalConnection(access), connectTimeout })
  } catch (error) {
    await assertTlsPossible(access)
    throw error
  }
}

async function assertTlsPossible(access: TemporalAccess): Promise<void> {
  const refusal = await temporalRefusal(access)
  if (refusal) throw new Error(refusal)
}

/**
 * For a process that can run without Temporal: each call checks `answers`, and if that rejects, logs why TLS can never succeed and what
 * to do. The same reason is logged once, until Temporal answers again.
 */
export function refusalLog(access: TemporalAccess, log: Logger, answers: () => Promise<unknown>): () => Promise<void> {
  let reported: string | null = null
  return async () => {
    const refusal = await answers().then(
      () => null,
      () => temporalRefusal(access),
    )
    if (refusal && refusal !== reported)
      log.error({}, `${refusal} Until then this process accepts requests, but they do not start.`)
    reported = refusal
  }
}

/** Long enough for a handshake; a server that accepts it answers immediately. */
const handshakeTimeoutMs = 5000

/**
 * Why no attempt to connect to Temporal can succeed, with what to do; null if one can, or if Temporal does not answer at all. The
 * libraries only report that nothing answered.
 */
export async function temporalRefusal(access: TemporalAccess): Promise<string | null> {
  const { temporalAddress, temporalTls } = access
  const [host, port] = hostAndPort(temporalAddress)
  const at = `Temporal at ${temporalAddress}`
  if (!temporalTls) {
    const speaks = (await handshake({ host, port, rejectUnauthorized: false })).secured
    return speaks ? `${at} requires TLS: set TEMPORAL_TLS=on, or the other TEMPORAL_TLS settings.` : null
  }
  const { ca, certificate, key, serverName } = pemsOf(temporalTls)
  const servername = serverName ?? host
  const own = { ...(ca && { ca }), ...(certificate && key && { cert: certificate, key }) }
  const { secured, answered, error } = await handshake({ host, port, ...own, servername })
  if (secured && !answered) return certificateRefused(at)
  return error && wordsFor(error, at)
}

const certificateRefused = (at: string) =>
  `${at} refuses the certificate of this process: set TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY to a pair signed by its authority.`

function wordsFor({ code = '', message }: NodeJS.ErrnoException, at: string): string | null {
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `The certificate of ${at} is for another name: set TEMPORAL_TLS_SERVER_NAME to the name in it.`
  if (/^(DEPTH_ZERO_)?SELF_SIGNED|^UNABLE_TO_|^CERT_(SIGNATURE|UNTRUSTED)|^INVALID_CA/.test(code))
    return `The certificate of ${at} is not signed by the authority in TEMPORAL_TLS_CA: set it to the authority that signed it.`
  if (/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/.test(code))
    return `The certificate of ${at} is not valid at present: renew it.`
  if (/WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG/.test(code))
    return `${at} does not use TLS: give it a certificate, or remove the TEMPORAL_TLS settings.`
  if (/ALERT|HANDSHAKE_FAILURE/.test(code)) return certificateRefused(at)
  if (/^ERR_(OSSL|CRYPTO)/.test(code))
    return `TEMPORAL_TLS_CA, TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY must be PEM certificates with their key: ${message}`
  return null
}

interface Handshake {
  secured: boolean
  /** The server sent data afterwards. One that requires a certificate refuses only after its own half of the handshake. */
  answered: boolean
  error: NodeJS.ErrnoException | null
}

/** Performs one handshake and nothing more. */
function handshake(options: SocketOptions): Promise<Handshake> {
  return new Promise(resolve => {
    let secured = false
    const end = (error: NodeJS.ErrnoException | null, answered = false) => resolve({ secured, answered, error })
    try {
      const socket = connect({ ALPNProtocols: ['h2'], ...options })
      const answer = () => {
        end(null, true)
        socket.destroy()
      }
      socket.setTimeout(handshakeTimeoutMs, answer) // silence is no refusal
      socket.once('secureConnect', () => {
        secured = true
        socket.write(http2Preface)
      })
      socket.once('data', answer)
      socket.once('error', end)
      socket.once('close', () => end(null))
    } catch (error) {
      end(error as NodeJS.ErrnoException)
    }
  })
}

/** The preface of an HTTP/2 client, and empty settings. */
const http2Preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'

function hostAndPort(address: string): [host: string, port: number] {
  const { hostname, port } = new URL(`tcp://${address}`)
  return [hostname.replace(/^\[|\]$/g, ''), Number(port || 7233)]
}
