import { readFileSync } from 'node:fs'
import { connect, type ConnectionOptions as SocketOptions } from 'node:tls'
import { Connection } from '@temporalio/client'
import type { Logger } from 'pino'
import type { Config } from '../../policy/config.ts'

export type TemporalAccess = Pick<Config, 'temporalAddress' | 'temporalTls' | 'temporalApiKey'>

/** What a connection to Temporal is made with, whether a client's or a worker's. Throws an Error that names a file which is not there. */
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

/** One line of an environment file writes a line's end as \n. */
function pemOf(name: string, setting: string | null): Buffer | null {
  if (setting === null) return null
  if (setting.startsWith('-----BEGIN')) return Buffer.from(setting.replaceAll('\\n', '\n'))
  try {
    return readFileSync(setting)
  } catch (error) {
    throw new Error(`The file that the setting ${name} names cannot be read: ${(error as Error).message}`)
  }
}

/** A client's connection, made now. Rejects with what to do when the two can never come to terms over TLS. */
export async function connectTemporal(access: TemporalAccess, connectTimeout: number): Promise<Connection> {
  if (access.temporalTls) await demandTerms(access)
  try {
    return await Connection.connect({ ...temporalConnection(access), connectTimeout })
  } catch (error) {
    await demandTerms(access)
    throw error
  }
}

async function demandTerms(access: TemporalAccess): Promise<void> {
  const refusal = await temporalRefusal(access)
  if (refusal) throw new Error(refusal)
}

/**
 * For a process that goes on without Temporal: each call asks `answers`, and where that rejects logs why the two can never come to terms
 * over TLS, with what to do. The same reason is logged once, until Temporal answers again.
 */
export function refusalLog(access: TemporalAccess, log: Logger, answers: () => Promise<unknown>): () => Promise<void> {
  let told: string | null = null
  return async () => {
    const refusal = await answers().then(
      () => null,
      () => temporalRefusal(access),
    )
    if (refusal && refusal !== told)
      log.error({}, `${refusal} Until then this process goes on, and nothing that it accepts begins.`)
    told = refusal
  }
}

/** Long enough for a handshake; a server that accepts it speaks at once. */
const patienceMs = 5000

/**
 * Why a connection to Temporal cannot come about however often it is tried, with what to do; null when it can, or Temporal does not
 * answer at all. The libraries tell only that nothing answered.
 */
export async function temporalRefusal(access: TemporalAccess): Promise<string | null> {
  const { temporalAddress, temporalTls } = access
  const [host, port] = hostAndPort(temporalAddress)
  const at = `Temporal at ${temporalAddress}`
  if (!temporalTls) {
    const speaks = (await handshake({ host, port, rejectUnauthorized: false })).secured
    return speaks ? `${at} wants TLS: set TEMPORAL_TLS=on, or the settings beside it.` : null
  }
  const { ca, certificate, key, serverName } = pemsOf(temporalTls)
  const servername = serverName ?? host
  const own = { ...(ca && { ca }), ...(certificate && key && { cert: certificate, key }) }
  const { secured, answered, error } = await handshake({ host, port, ...own, servername })
  if (secured && !answered) return notKnown(at)
  return error && wordsFor(error, at)
}

const notKnown = (at: string) =>
  `${at} refuses the certificate of this process: give a pair that its authority has signed as TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY.`

function wordsFor({ code = '', message }: NodeJS.ErrnoException, at: string): string | null {
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `The certificate of ${at} is for another name: set TEMPORAL_TLS_SERVER_NAME to the one in it.`
  if (/^(DEPTH_ZERO_)?SELF_SIGNED|^UNABLE_TO_|^CERT_(SIGNATURE|UNTRUSTED)|^INVALID_CA/.test(code))
    return `The certificate of ${at} is not signed by the authority in TEMPORAL_TLS_CA: give the authority that signed it there.`
  if (/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/.test(code)) return `The certificate of ${at} is not valid now: renew it.`
  if (/WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG/.test(code))
    return `${at} does not speak TLS: give it a certificate, or take the TEMPORAL_TLS settings away.`
  if (/ALERT|HANDSHAKE_FAILURE/.test(code)) return notKnown(at)
  if (/^ERR_(OSSL|CRYPTO)/.test(code))
    return `TEMPORAL_TLS_CA, TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY are no certificates with their key in PEM: ${message}`
  return null
}

interface Handshake {
  secured: boolean
  /** The server spoke afterwards. One that wants a certificate says or shows so only after its own half is done. */
  answered: boolean
  error: NodeJS.ErrnoException | null
}

/** One handshake and nothing more. */
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
      socket.setTimeout(patienceMs, answer) // silence is no refusal
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

/** What a client of HTTP/2 begins with, and empty settings. */
const http2Preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'

function hostAndPort(address: string): [host: string, port: number] {
  const { hostname, port } = new URL(`tcp://${address}`)
  return [hostname.replace(/^\[|\]$/g, ''), Number(port || 7233)]
}
