import { type IncomingMessage, request } from 'node:http'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KiB } from '../../lib/bytes.ts'
import { healthChecks, isHealthyStatus } from '../../policy/hosts/health-checks.ts'

export interface Probe {
  /** Where the container of the application has published its port. */
  address: string
  port: number
  path: string
  /** Host name of the application, as its visitors send it. */
  host: string
  /** Default: that of the checks. */
  withinMs?: number
  signal: AbortSignal
}

/** Null: it works. Else why not, as a sentence for people; `own`: the fault is the host's, so the check says nothing. */
export type ProbeOutcome = { reason: string; own?: true } | null

/** Errors of this machine, which say nothing about a program. */
const ownFaults = ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']

/** What a failed connection means, in words that continue the path. */
const words: Record<string, string> = {
  ECONNREFUSED: 'could not be requested: the connection was refused',
  ECONNRESET: 'gave no answer: the connection was closed',
  EPIPE: 'gave no answer: the connection was closed',
  HPE_HEADER_OVERFLOW: `answered with more than ${healthChecks.headerBytes / KiB} KB of headers`,
}

/**
 * Requests the path of an application once, on a connection of its own. What a program may answer is bounded in time, bytes and
 * messages; redirects are not followed. Resolves after at most `withinMs`, and never rejects; to an own fault when the signal aborts.
 */
export function probe({
  address,
  port,
  path,
  host,
  withinMs = healthChecks.withinMs,
  signal,
}: Probe): Promise<ProbeOutcome> {
  return new Promise(resolve => {
    let outcome: ProbeOutcome | undefined
    let interim = 0
    /** The first decision counts: after a status nothing of its body does. */
    const decide = (reason: string | null, own = false) => {
      if (outcome === undefined) outcome = reason === null ? null : { reason: `${path} ${reason}`, ...(own && { own }) }
    }
    const call = request({
      ...{ host: address, port, path, agent: false, maxHeaderSize: healthChecks.headerBytes },
      headers: { host, 'user-agent': 'berth-health', accept: '*/*' },
    })
    const end = (reason: string, own?: boolean) => {
      decide(reason, own)
      call.destroy()
    }
    const late = setTimeout(() => end(`gave no answer within ${withinMs / 1000} s`), withinMs)
    const stop = () => end('was not checked: its host stops', true)
    signal.addEventListener('abort', stop, { once: true })
    // A stream of interim answers is no answer, and each of them costs this process as much as one.
    call.on('information', () => {
      if (++interim > healthChecks.interimAnswers) end('gave no valid HTTP answer')
    })
    call.on('upgrade', () => end('answered 101'))
    call.on('response', answer => {
      const { statusCode = 0 } = answer
      decide(isHealthyStatus(statusCode) ? null : `answered ${statusCode}`)
      discard(answer)
    })
    call.on('error', ({ code = '' }: NodeJS.ErrnoException) => {
      if (ownFaults.includes(code)) decide(`was not checked: ${code}`, true)
      else decide(words[code] ?? (code.startsWith('HPE_') ? 'gave no valid HTTP answer' : `failed: ${code}`))
    })
    call.on('close', () => {
      clearTimeout(late)
      signal.removeEventListener('abort', stop)
      decide('gave no answer')
      resolve(outcome ?? null)
    })
    if (signal.aborted) stop()
    else call.end()
  })
}

/** Reads a short body, so that a program can finish its answer, and no more of a long one; the status has decided already. */
function discard(answer: IncomingMessage): void {
  let bytes = 0
  answer.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > healthChecks.bodyBytes) answer.destroy()
  })
  answer.on('error', ignoreError('the rest of an answer is of no interest'))
}
