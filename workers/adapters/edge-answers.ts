import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import type { EdgeSettings } from '../../policy/edge/edge-settings.ts'

const withinMs = 2000

/**
 * Resolves when the proxy gives a visitor any answer; rejects after 2 s. It does not use the control socket: access to that includes
 * changing routes, which the API must not do.
 */
export async function edgeAnswers({
  bind,
  port,
  proxyProtocol,
}: Pick<EdgeSettings, 'bind' | 'port' | 'proxyProtocol'>): Promise<void> {
  const host = bind === '0.0.0.0' || bind === '::' ? '127.0.0.1' : bind
  const createConnection = () => {
    const socket = connect({ host, port })
    if (proxyProtocol) socket.write('PROXY UNKNOWN\r\n')
    return socket
  }
  const headers = { host: host.includes(':') ? `[${host}]` : host }
  const signal = AbortSignal.timeout(withinMs)
  const visit = request({ headers, signal, createConnection }).end()
  const [answer] = await once(visit, 'response')
  answer.resume()
}
