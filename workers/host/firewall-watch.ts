import type { Logger } from 'pino'
import { type Firewall, firewallState } from '../../activities/firewall/port.ts'
import type { Db } from '../../db/database.ts'
import { recordProtection } from '../../db/hosts/hosts.ts'
import { loop, pause } from '../../lib/async/loop.ts'
import { roundSeconds } from '../../policy/rounds.ts'

export interface FirewallWatchOptions {
  db: Db
  firewall: Firewall | null
  hostId: string
  log: Logger
  everySeconds?: number
}

/**
 * Checks, repairs and reports this host's rules in every round, until the signal aborts: other programs flush rules, or reload their
 * own ahead of Berth's.
 */
export async function watchFirewall(options: FirewallWatchOptions, signal: AbortSignal): Promise<void> {
  const { firewall, everySeconds = roundSeconds.firewall } = options
  if (!firewall) return
  const report = reporter(options)
  const everyMs = everySeconds * 1000
  const onError = (error: unknown) => options.log.warn({ err: error }, 'firewall: the state was not recorded')
  await pause(everyMs, signal)
  await loop(() => checkOnce(firewall, options.log).then(report), { signal, everyMs, onError })
}

/** The state after one check, in words. */
async function checkOnce(firewall: Firewall, log: Logger): Promise<string> {
  try {
    const look = await firewall.apply()
    if (look.repaired.length === 0) return firewallState(look)
    log.warn({ repaired: look.repaired }, 'firewall: another program had changed the rules, which were restored')
    return `${firewallState(look)}; restored at ${new Date().toISOString()}: ${look.repaired.join(', ')}`
  } catch (error) {
    log.error({ err: error }, 'firewall: the rules cannot be set')
    return `BROKEN: ${(error as Error).message}`
  }
}

/** Records changes. That rules had to be restored stays visible until the next change. */
function reporter({ db, hostId }: FirewallWatchOptions) {
  let recorded = ''
  return async (state: string): Promise<void> => {
    if (recorded === state || recorded.startsWith(`${state};`)) return
    await recordProtection(db, hostId, 'firewall', state)
    recorded = state
  }
}
