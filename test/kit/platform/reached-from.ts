import type { ExecutionContext } from 'ava'
import { relayTo } from '../servers/relay.ts'
import type { TestPlatform } from './platform.ts'

/** Settings with which a host in a network of its own reaches Postgres and Temporal: by relays at `address`, closed after the test. */
export async function reachedFrom(
  address: string,
  { base }: TestPlatform,
  t: ExecutionContext,
): Promise<Record<string, string>> {
  const { url, config } = base
  const line = async (port: number) => {
    const relay = await relayTo({ host: '127.0.0.1', port }, undefined, address)
    t.teardown(() => relay.close())
    return relay.port
  }
  const database = new URL(url)
  database.port = String(await line(Number(database.port)))
  database.hostname = address
  const temporal = await line(Number(config.temporalAddress.split(':')[1]))
  return { DATABASE_URL: database.href, TEMPORAL_ADDRESS: `${address}:${temporal}` }
}
