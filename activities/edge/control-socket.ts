import { request } from 'node:http'

/** An answer takes under a millisecond; a whole table of 10,000 routes takes tens of milliseconds. */
const usualDeadlineMs = 5_000

/** Status of the control location for a request that it cannot read or store. */
const refused = 422

class RequestFailed extends Error {
  readonly status: number

  constructor(message: string, status: number) {
    super(message)
    this.status = status
  }
}

/** A proxy of an earlier version, which is replaced a moment later, does not support all requests. */
export function unlessOlder(error: unknown): null {
  if (error instanceof RequestFailed && error.status === 404) return null
  throw error
}

/** A class of errors. */
export type RefusalClass = new (message: string) => Error

interface ControlRequest {
  method: 'GET' | 'PUT' | 'POST'
  path: string
  body?: string
  deadlineMs?: number | undefined
  /** Thrown when the proxy refuses what it was sent. */
  Refused: RefusalClass
}

/** Sends one request over the control socket and resolves to the answer's text. Throws an Error when the proxy is unreachable. */
export function control(socketPath: string, message: ControlRequest): Promise<string> {
  const { method, path, body = '', deadlineMs = usualDeadlineMs, Refused } = message
  return new Promise((resolve, reject) => {
    const headers = { host: 'control', 'content-length': Buffer.byteLength(body) }
    const call = request({ socketPath, method, path, headers, agent: false }, answer => {
      const chunks: Buffer[] = []
      answer.on('data', chunk => chunks.push(chunk))
      answer.on('error', reject)
      answer.on('end', () => {
        const text = Buffer.concat(chunks).toString()
        const status = answer.statusCode ?? 0
        if (status >= 200 && status < 300) resolve(text)
        else if (status === refused) reject(new Refused(`the proxy refused it: ${text.slice(0, 300)}`))
        else reject(new RequestFailed(`The proxy failed a request (${status}): ${text.slice(0, 300)}`, status))
      })
    })
    call.setTimeout(deadlineMs, () => call.destroy(new Error(`The proxy did not answer within ${deadlineMs} ms`)))
    call.on('error', error =>
      reject(new Error(`The proxy's control socket failed: ${error.message}`, { cause: error })),
    )
    call.end(body)
  })
}
