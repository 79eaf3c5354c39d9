import { readFile } from 'node:fs/promises'
import * as http from 'node:http'
import * as https from 'node:https'
import { isIPv6, type LookupFunction, type Socket } from 'node:net'
import { rootCertificates } from 'node:tls'
import { gitAddress, hostAndPort, mayKeepToken, tokenUser } from '../../policy/git/git-source.ts'
import { type PinnedServer, pin, type Resolve } from './address.ts'
import { FetchRefused, type FetchRequest } from './port.ts'

/** Where a repository was found, and whether its password may be used there. */
export interface FoundRepository extends PinnedServer {
  token: string | null
}

export interface DiscoveryOptions {
  resolve: Resolve
  /** File with further certificate authorities. */
  caBundle: string | null
  /** How long a server that took the connection may take to begin TLS. */
  handshakeSeconds: number
}

const hops = 5
const question = '/info/refs?service=git-upload-pack'
const advertisement = 'application/x-git-upload-pack-advertisement'

/**
 * Asks the server for the repository before git does, because git would follow redirects by itself: every hop is looked up and
 * checked anew. Rejects with `FetchRefused`, also where https is no https, or with an Error that may heal (no connection, 5xx).
 */
export async function findRepository(
  request: FetchRequest,
  { resolve, caBundle, handshakeSeconds }: DiscoveryOptions,
  signal: AbortSignal,
): Promise<FoundRepository> {
  const start = gitAddress(request.url)
  if (!start)
    throw new FetchRefused('CLONE_FAILED', 'The clone address is not an http or https address of a git server.')
  const ca = caBundle === null ? undefined : [...rootCertificates, await readFile(caBundle, 'utf8')]
  const way = { ca, handshakeSeconds, signal }
  let address = start
  for (let hop = 0; hop <= hops; hop++) {
    const server = await pin(address, request.allowedHosts, resolve, signal)
    const token = mayKeepToken(start, server) ? request.token : null
    let answer = await ask(server, null, way)
    if (answer.status === 401 && token !== null) answer = await ask(server, token, way)
    if (answer.status < 300 || answer.status >= 400) {
      judge(answer, server, token)
      return { ...server, token }
    }
    address = repositoryAt(answer.location, server)
  }
  throw new FetchRefused('CLONE_FAILED', 'The git server redirects without end.')
}

interface Answer {
  status: number
  type: string
  location: string
}

interface Way {
  ca: string[] | undefined
  handshakeSeconds: number
  signal: AbortSignal
}

/** The head of the server's answer; its body is not read. */
function ask(server: PinnedServer, token: string | null, { ca, handshakeSeconds, signal }: Way): Promise<Answer> {
  const password = token === null ? {} : { authorization: `Basic ${basic(tokenUser(server), token)}` }
  return new Promise((resolve, reject) => {
    const { get } = server.secure ? https : http
    const sent = get(server.url + question, {
      agent: false,
      lookup: onlyTo(server.addresses),
      headers: { 'user-agent': 'git/2 (berth)', accept: '*/*', 'git-protocol': 'version=2', ...password },
      ...(ca ? { ca } : {}),
      signal,
    })
    if (server.secure) sent.once('socket', socket => endSilence(socket, handshakeSeconds, noTls(server)))
    sent.once('error', error => reject(signal.aborted ? signal.reason : unreachable(server, error)))
    sent.once('response', answer => {
      const { 'content-type': type = '', location = '' } = answer.headers
      resolve({ status: answer.statusCode ?? 0, type: type.split(';')[0]!.trim(), location })
      sent.destroy()
    })
  })
}

/** Answers every look-up with the checked addresses. */
function onlyTo(addresses: string[]): LookupFunction {
  const found = addresses.map(address => ({ address, family: isIPv6(address) ? 6 : 4 }))
  return (_, { all }, callback) => (all ? callback(null, found) : callback(null, found[0]!.address, found[0]!.family))
}

function judge({ status, type }: Answer, server: PinnedServer, token: string | null): void {
  if (status === 401 || status === 403)
    throw new FetchRefused(
      'AUTHENTICATION_REQUIRED',
      token === null
        ? `${hostAndPort(server)} asks for an access token (HTTP ${status}).`
        : `${hostAndPort(server)} refused the access token (HTTP ${status}).`,
    )
  if (status >= 500 || status === 429 || status === 408)
    throw new Error(`The git server ${hostAndPort(server)} answered HTTP ${status}.`)
  if (status === 404 || status === 410)
    throw new FetchRefused(
      'CLONE_FAILED',
      `${hostAndPort(server)} has no such repository, or hides it from this token.`,
    )
  if (status !== 200 || type !== advertisement)
    throw new FetchRefused('CLONE_FAILED', `${hostAndPort(server)} does not answer as a git server (HTTP ${status}).`)
}

/** The repository that a redirect names; a login page is none. Leaves https never. */
function repositoryAt(location: string, from: PinnedServer) {
  const target = URL.canParse(location, from.url + question) ? new URL(location, from.url + question).href : ''
  const address = target.endsWith(question) ? gitAddress(target.slice(0, -question.length)) : null
  // From https back to http, anybody on the way could put in other files.
  if (!address || (from.secure && !address.secure))
    throw new FetchRefused(
      'CLONE_FAILED',
      `${hostAndPort(from)} sends the request on to something that is no repository.`,
    )
  return address
}

/** Who took the connection and says nothing to the first bytes of TLS waits, most likely, for a line of plain http. */
function endSilence(socket: Socket, seconds: number, refusal: FetchRefused): void {
  socket.once('connect', () => {
    const timer = setTimeout(() => socket.destroy(refusal), seconds * 1000)
    for (const end of ['secureConnect', 'close']) socket.once(end, () => clearTimeout(timer))
  })
}

/** What was said in answer to the first bytes of TLS was no TLS. */
const isPlain = (error: Error): boolean =>
  /^(ERR_SSL_|EPROTO$)/.test((error as NodeJS.ErrnoException).code ?? '') &&
  /wrong version number|packet length too long|http request/i.test(error.message)

const noTls = (server: PinnedServer): FetchRefused =>
  new FetchRefused(
    'CLONE_FAILED',
    `The clone address says https, and ${hostAndPort(server)} does not speak it. If it speaks plain http, the address begins with http://.`,
  )

function unreachable(server: PinnedServer, error: Error): Error {
  if (error instanceof FetchRefused) return error
  if (isPlain(error)) return noTls(server)
  return new Error(`The git server ${hostAndPort(server)} could not be reached: ${error.message}`, { cause: error })
}

const basic = (user: string, password: string) => Buffer.from(`${user}:${password}`).toString('base64')
