import { readFile } from 'node:fs/promises'
import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import { outcomeOf, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { bridgePrefix, buildBridgePrefix, chainName } from '../containers/network-names.ts'
import { forwardParent, jumpsTo, planFirewall, rulesOf, type WantedChain } from './plan.ts'
import {
  admissionRules,
  type Firewall,
  type FirewallState,
  type FirewallTraits,
  firewallRules,
  inwardRules,
  nameServers,
  type OpenedFirewall,
} from './port.ts'

export interface IptablesOptions extends Omit<FirewallTraits, 'counter' | 'admitted'> {
  /** Bridges of applications; a trailing + matches any suffix. */
  bridges: string
  /** Prefix of the names of our chains. */
  name: string
  /** The proxies of builds that are known now, in addition to those of `builds`; always in the same order. */
  proxies?: () => FirewallTraits['builds']['proxies']
  /** Names of our bridges from before names contained the host. When it rejects, the known ones are retained. */
  olderBridges?: () => Promise<readonly string[]>
  /** Prefix of every command, for tests in their own network namespace. */
  through?: readonly string[]
}

type Tool = 'iptables' | 'ip6tables'

/** Our own chains, filled in one commit and reached by jumps at the top, so that applying and removing can be repeated. */
export function iptablesFirewall(options: IptablesOptions): Firewall {
  const { bridges, name, proxies = () => [], olderBridges = async () => [], through = [], ...traits } = options
  const own = [bridges, traits.builds.bridges]
  const input = `${name}-INPUT`
  const forward = `${name}-FORWARD`
  const inward = `${name}-INWARD`
  // A chain of its own: the limits on connections would count from zero if theirs were filled again.
  const admitted = `${name}-ADMITTED`
  const lock = new KeyedLock()
  const run = (program: string, args: string[], text = '') => start([...through, program, ...args], text)
  /** The rules of our chains as the tool lists them, which may differ from what it was given. */
  const listed: Record<Tool, Map<string, string[]>> = { iptables: new Map(), ip6tables: new Map() }
  let counter: string | null = bridges.replace('+', '')
  /** Rules of the chain of admissions; null = not known to this process yet. */
  let admissions: readonly string[] | null = null
  /** The proxies that our chains open. */
  let opened = proxies()

  async function listing(tool: Tool): Promise<string[] | null> {
    const { code, output } = await run(tool, ['-w', '-S'])
    return code === 0 ? output.split('\n') : null
  }

  /** Our networks are IPv4 only; IPv6 on a bridge is only link-local traffic with the host. */
  const rules = (tool: Tool): Record<string, string[]> => {
    if (tool === 'ip6tables') return { [input]: ['-j REJECT'], [forward]: ['-j REJECT'] }
    const builds = { ...traits.builds, proxies: [...traits.builds.proxies, ...opened] }
    const lists = firewallRules({ ...traits, builds, admitted, counter })
    return {
      [input]: lists.input,
      [forward]: lists.forward,
      [admitted]: [...(admissions ?? [])],
      [inward]: inwardRules(counter),
    }
  }

  async function commit(tool: Tool, { fill, jumps }: { fill: string[]; jumps: string[] }): Promise<void> {
    const target = rules(tool)
    const heads = fill.map(chain => `:${chain} - [0:0]`)
    const lines = fill.flatMap(chain => target[chain]!.map(rule => `-A ${chain} ${rule}`))
    const text = ['*filter', ...heads, ...lines, ...jumps, 'COMMIT', ''].join('\n')
    const { code, error } = await run(`${tool}-restore`, ['-w', '--noflush'], text)
    if (code !== 0) throw new Error(`${tool}-restore: ${error.trim()}`)
  }

  async function repair(tool: Tool, older: readonly string[] | null): Promise<string[]> {
    const present = await listing(tool)
    if (present === null && tool === 'ip6tables') return []
    if (present === null) throw new Error('iptables does not answer')
    if (tool === 'iptables' && admissions === null) adopt(present)
    const chainOf = (chain: string, parent: string | null): WantedChain => {
      return { name: chain, parent, listed: listed[tool].get(chain) ?? null, inward: chain === inward }
    }
    const chains =
      tool === 'iptables'
        ? [
            chainOf(input, 'INPUT'),
            ...[forward, inward].map(chain => chainOf(chain, forwardParent(present))),
            chainOf(admitted, null),
          ]
        : [chainOf(input, 'INPUT'), chainOf(forward, 'FORWARD')]
    const plan = planFirewall(present, chains, [
      ...own,
      ...(older ?? jumpsTo(present, input).filter(bridge => !own.includes(bridge))),
    ])
    if (plan.faults.length === 0) return []
    await commit(tool, plan).catch(async error => {
      if (counter === null || tool === 'ip6tables') throw error
      counter = null // a kernel without these two match modules refuses the whole commit
      await commit(tool, plan)
    })
    const current = (await listing(tool)) ?? []
    for (const chain of plan.fill) listed[tool].set(chain, rulesOf(current, chain))
    return plan.faults
  }

  /** What a process before this one has opened stays open until this one knows better. */
  function adopt(present: readonly string[]): void {
    const rules = rulesOf(present, admitted)
    admissions = rules.map(rule => rule.slice(`-A ${admitted} `.length))
    if (present.includes(`-N ${admitted}`)) listed.iptables.set(admitted, rules)
  }

  /** Fills both chains again when the proxies have other addresses. They were not tampered with then, so it is no repair. */
  async function reopen(): Promise<void> {
    const addresses = proxies()
    const before = opened
    if (JSON.stringify(addresses) === JSON.stringify(before)) return
    opened = addresses
    const chains = [input, forward]
    try {
      await commit('iptables', { fill: chains, jumps: [] })
    } catch (error) {
      opened = before // the next check tries again
      throw error
    }
    const current = (await listing('iptables')) ?? []
    for (const chain of chains) listed.iptables.set(chain, rulesOf(current, chain))
  }

  async function removeAll(): Promise<void> {
    for (const tool of ['iptables', 'ip6tables'] as const) {
      const present = (await listing(tool)) ?? []
      for (const chain of [input, forward, inward, admitted]) {
        const jumps = present.filter(rule => rule.endsWith(` -j ${chain}`))
        for (const jump of jumps) await run(tool, ['-w', '-D', ...jump.slice(3).split(' ')])
        await run(tool, ['-w', '-F', chain])
        await run(tool, ['-w', '-X', chain])
      }
    }
  }

  return {
    async apply(): Promise<FirewallState> {
      const older = await olderBridges().catch(() => null)
      return lock.run(name, async () => {
        // What others have changed is found by the rules that this process has set.
        if (!listed.iptables.has(input)) opened = proxies()
        const repaired = [...(await repair('iptables', older)), ...(await repair('ip6tables', older))]
        await reopen()
        return { repaired: [...new Set(repaired)], limited: counter !== null }
      })
    },
    async admit(admissionList) {
      const rules = admissionRules(admissionList)
      await lock.run(name, async () => {
        if (listed.iptables.has(admitted) && rules.join('\n') === admissions?.join('\n')) return
        admissions = rules
        listed.iptables.delete(admitted)
        await commit('iptables', { fill: [admitted], jumps: [] })
        listed.iptables.set(admitted, rulesOf((await listing('iptables')) ?? [], admitted))
      })
    },
    remove: () => lock.run(name, removeAll),
  }
}

/** Removes the firewall of a host; nothing there, or not being root, is success. */
export async function removeFirewall(hostId: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  await iptablesFirewall({ ...namesOf(hostId), resolvers: [] }).remove()
}

/** Names of a host's firewall and of its bridges, which no other host has. */
export const namesOf = (hostId: string) => ({
  name: chainName(hostId),
  bridges: `${bridgePrefix(hostId)}+`,
  builds: { bridges: `${buildBridgePrefix(hostId)}+`, proxies: [] },
})

/** The firewall of this host, if it runs as root, has the tool, and the setting is on. */
export async function openFirewall(
  mode: 'auto' | 'off',
  hostId: string,
  proxies: IptablesOptions['proxies'] = () => [],
  networks: () => Promise<readonly { bridge: string | null }[]> = async () => [],
): Promise<OpenedFirewall> {
  if (mode === 'off') return { firewall: null, notice: 'the setting HOST_FIREWALL is off' }
  if (process.getuid?.() !== 0) return { firewall: null, notice: 'the host process does not run as root' }
  const outcome = await start(['iptables', '-w', '-n', '-L', 'INPUT'], '')
  if (outcome.code !== 0)
    return { firewall: null, notice: `iptables does not work here: ${outcome.error.split('\n')[0]}` }
  const olderBridges = async () =>
    (await networks()).flatMap(({ bridge }) => (bridge?.startsWith('berth') ? [bridge] : []))
  const resolvers = await systemResolvers()
  return { firewall: iptablesFirewall({ ...namesOf(hostId), proxies, resolvers, olderBridges }), notice: null }
}

/** The name servers that the engine forwards to: the machine's, and those behind a local resolver. */
async function systemResolvers(): Promise<string[]> {
  const files = ['/etc/resolv.conf', '/run/systemd/resolve/resolv.conf']
  const texts = await Promise.all(files.map(file => readFile(file, 'utf8').catch(() => '')))
  return [...new Set(texts.flatMap(nameServers))]
}

/** Exit code and output; code 127 when the program is missing. */
function start(
  [program = '', ...args]: string[],
  input: string,
): Promise<{ code: number; output: string; error: string }> {
  const child = startProcess(program, args, { env: systemEnvironment, stdio: ['pipe', 'pipe', 'pipe'] })
  const outcome = outcomeOf(child).catch(cause => ({ code: 127, output: '', error: (cause as Error).message }))
  // A program that has ended does not read; its exit code decides.
  child.stdin!.on('error', () => {}).end(input)
  return outcome
}
