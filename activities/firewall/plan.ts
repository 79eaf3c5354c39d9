/** The desired state of one of our chains. */
export interface WantedChain {
  name: string
  /** The kernel's chain that jumps to it before anything else; null = another of our chains does. */
  parent: string | null
  /** It gets what comes to our bridges from elsewhere; default: what comes from them. */
  inward?: boolean
  /** Its rules as the tool lists them; null = this process has not filled it yet. */
  listed: readonly string[] | null
}

export interface FirewallPlan {
  /** What is wrong, for people; empty when nothing is. */
  faults: string[]
  /** Chains to fill again. */
  fill: string[]
  /** Lines that delete our jumps and insert the right ones at the top, for one commit. */
  jumps: string[]
}

/**
 * The chain that sees every forwarded packet first. The engine's chain for user rules, as long as the kernel's chain jumps to
 * it first: after a flush it exists but is never reached.
 */
export function forwardParent(listing: readonly string[]): 'DOCKER-USER' | 'FORWARD' {
  const first = rulesOf(listing, 'FORWARD').find(rule => !isJump(rule))
  return listing.includes('-N DOCKER-USER') && first === '-A FORWARD -j DOCKER-USER' ? 'DOCKER-USER' : 'FORWARD'
}

/** Interfaces whose packets jump to a chain now. */
export function jumpsTo(listing: readonly string[], chain: string): string[] {
  return listing.flatMap(rule => (rule.endsWith(` -j ${chain}`) ? [/ -i (\S+) /.exec(rule)?.[1] ?? ''] : []))
}

/** Plans the changes after which packets of `bridges` reach every chain before any other rule. `listing` is the output of `iptables -S`. */
export function planFirewall(
  listing: readonly string[],
  chains: readonly WantedChain[],
  bridges: readonly string[],
): FirewallPlan {
  const plan: FirewallPlan = { faults: [], fill: [], jumps: [] }
  for (const { name, parent, listed, inward = false } of chains) {
    const isWhole = listing.includes(`-N ${name}`) && rulesOf(listing, name).join('\n') === listed?.join('\n')
    if (!isWhole) {
      plan.faults.push(`the rules of ${name}`)
      plan.fill.push(name)
    }
    if (parent === null) continue
    const way = (bridge: string) => (inward ? `! -i ${bridge} -o ${bridge}` : `-i ${bridge}`)
    const jumps = bridges.map(bridge => `${parent} ${way(bridge)} -j ${name}`)
    const rules = rulesOf(listing, parent)
    // Jumps of other installations are for other bridges, so their order does not matter.
    const firstOther = rules.findIndex(rule => !isJump(rule))
    const front = firstOther < 0 ? rules : rules.slice(0, firstOther)
    const present = listing.filter(rule => rule.startsWith('-A ') && rule.endsWith(` -j ${name}`))
    const inPlace = jumps.every(jump => front.includes(`-A ${jump}`)) && present.length === jumps.length
    if (inPlace) continue
    plan.faults.push(`the jumps from ${parent} to ${name}`)
    plan.jumps.push(...present.map(rule => `-D ${rule.slice(3)}`))
    plan.jumps.push(...jumps.map(jump => `-I ${jump.replace(' ', ' 1 ')}`))
  }
  return plan
}

export const rulesOf = (listing: readonly string[], chain: string): string[] =>
  listing.filter(line => line.startsWith(`-A ${chain} `))

/** Whether a rule is a jump from a bridge of any Berth installation to its chain. */
const isJump = (rule: string): boolean =>
  /^-A \S+ (-i \S+|! -i \S+ -o \S+) -j BERTH-[0-9a-f]{8}-(INPUT|FORWARD|INWARD)$/.test(rule)
