import type { EdgeSettings } from '../policy/config.ts'

const withinMs = 2000

/**
 * Resolves when the proxy gives a visitor any answer; rejects after 2 s. It does not use the control socket: access to that includes
 * changing routes, which the API must not do.
 */
export async function edgeAnswers({ bind, port }: Pick<EdgeSettings, 'bind' | 'port'>): Promise<void> {
  const address = bind === '0.0.0.0' || bind === '::' ? '127.0.0.1' : bind
  const host = address.includes(':') ? `[${address}]` : address
  const answer = await fetch(`http://${host}:${port}/`, { redirect: 'manual', signal: AbortSignal.timeout(withinMs) })
  await answer.body?.cancel()
}
