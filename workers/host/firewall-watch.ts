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
 * Others flush rules, reload theirs and put them before ours: what this host has put in place is looked at, repaired and
 * reported in every round, until the signal aborts.
 */
export async function watchFirewall(options: FirewallWatchOptions, signal: AbortSignal): Promise<void> {
  const { firewall, everySeconds = roundSeconds.firewall } = options
  if (!firewall) return
  const report = reporter(options)
  const everyMs = everySeconds * 1000
  const onError = (error: unknown) => options.log.warn({ err: error }, 'firewall: its state was not recorded')
  await pause(everyMs, signal)
  await loop(() => lookOnce(firewall, options.log).then(report), { signal, everyMs, onError })
}

/** How it stands after one look, for people. */
async function lookOnce(firewall: Firewall, log: Logger): Promise<string> {
  try {
    const look = await firewall.apply()
    if (look.repaired.length === 0) return firewallState(look)
    log.warn({ repaired: look.repaired }, 'firewall: somebody else had changed it, and it was put in place again')
    return `${firewallState(look)}; put in place again at ${new Date().toISOString()}: ${look.repaired.join(', ')}`
  } catch (error) {
    log.error({ err: error }, 'firewall: cannot be put in place')
    return `BROKEN: ${(error as Error).message}`
  }
}

/** Writes down what is new. That something had to be put in place stays to be read until there is other news. */
function reporter({ db, hostId }: FirewallWatchOptions) {
  let written = ''
  return async (state: string): Promise<void> => {
    if (written === state || written.startsWith(`${state};`)) return
    await recordProtection(db, hostId, 'firewall', state)
    written = state
  }
}
