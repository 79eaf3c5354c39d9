/** One chain of ours as it should be. */
export interface WantedChain {
  name: string
  /** The kernel's chain that asks it, first of all. */
  parent: string
  /** Its rules as the tool lists them, known once they were put in place; null = not put in place by this process yet. */
  listed: readonly string[] | null
}

export interface FirewallPlan {
  /** What is not as it should be, for people; empty when all stands. */
  faults: string[]
  /** Chains to fill anew. */
  fill: string[]
  /** Lines that take every jump of ours away and put the right ones first, for one commit. */
  jumps: string[]
}

/**
 * The chain that sees every forwarded packet first. The engine's own for rules of others, as long as the kernel's chain really
 * asks it first: after a flush it stands there and nobody comes by.
 */
export function forwardParent(listing: readonly string[]): 'DOCKER-USER' | 'FORWARD' {
  const first = rulesOf(listing, 'FORWARD').find(rule => !isJump(rule))
  return listing.includes('-N DOCKER-USER') && first === '-A FORWARD -j DOCKER-USER' ? 'DOCKER-USER' : 'FORWARD'
}

/** Interfaces that lead into a chain now. */
export function jumpsTo(listing: readonly string[], chain: string): string[] {
  return listing.flatMap(rule => (rule.endsWith(` -j ${chain}`) ? [/ -i (\S+) /.exec(rule)?.[1] ?? ''] : []))
}

/** What has to be done so that `bridges` lead into every chain before anything else is asked. `listing` is what `iptables -S` prints. */
export function planFirewall(
  listing: readonly string[],
  chains: readonly WantedChain[],
  bridges: readonly string[],
): FirewallPlan {
  const plan: FirewallPlan = { faults: [], fill: [], jumps: [] }
  for (const { name, parent, listed } of chains) {
    if (listed === null || rulesOf(listing, name).join('\n') !== listed.join('\n')) {
      plan.faults.push(`the rules of ${name}`)
      plan.fill.push(name)
    }
    const wanted = bridges.map(bridge => `${parent} -i ${bridge} -j ${name}`)
    const rules = rulesOf(listing, parent)
    // Jumps of other installations are about other bridges, so each may believe itself first.
    const behind = rules.findIndex(rule => !isJump(rule))
    const front = behind < 0 ? rules : rules.slice(0, behind)
    const present = listing.filter(rule => rule.startsWith('-A ') && rule.endsWith(` -j ${name}`))
    const stands = wanted.every(jump => front.includes(`-A ${jump}`)) && present.length === wanted.length
    if (stands) continue
    plan.faults.push(`the way from ${parent} to ${name}`)
    plan.jumps.push(...present.map(rule => `-D ${rule.slice(3)}`))
    plan.jumps.push(...wanted.map(jump => `-I ${jump.replace(' ', ' 1 ')}`))
  }
  return plan
}

export const rulesOf = (listing: readonly string[], chain: string): string[] =>
  listing.filter(line => line.startsWith(`-A ${chain} `))

/** Whether a rule does nothing but lead bridges of some installation of ours into its chain. */
const isJump = (rule: string): boolean => /^-A \S+ -i \S+ -j BERTH-[0-9a-f]{8}-(INPUT|FORWARD)$/.test(rule)
