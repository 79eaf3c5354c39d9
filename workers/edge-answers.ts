import type { EdgeSettings } from '../policy/config.ts'

const withinMs = 2000

/**
 * Resolves when the proxy answers a visitor, whatever it says; rejects after 2 s. Not through its control socket: who reaches that
 * may change routes, which the API has no business with.
 */
export async function edgeAnswers({ bind, port }: Pick<EdgeSettings, 'bind' | 'port'>): Promise<void> {
  const address = bind === '0.0.0.0' || bind === '::' ? '127.0.0.1' : bind
  const host = address.includes(':') ? `[${address}]` : address
  const answer = await fetch(`http://${host}:${port}/`, { redirect: 'manual', signal: AbortSignal.timeout(withinMs) })
  await answer.body?.cancel()
}
