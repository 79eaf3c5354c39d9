import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { startProcess, systemEnvironment } from '../lib/child-process.ts'
import { type Firewall, type FirewallTraits, firewallRules, nameServers, type OpenedFirewall } from './firewall.ts'

export interface IptablesOptions extends FirewallTraits {
  /** Bridges the rules are for; a trailing + stands for any ending. */
  bridges?: string
  /** Beginning of the names of our chains. */
  name?: string
}

/** Chains of our own, filled in one commit and reached by one jump each, so that applying and removing can be repeated. */
export function iptablesFirewall({ bridges = 'berth+', name = 'BERTH', ...traits }: IptablesOptions): Firewall {
  const rules = firewallRules(traits)
  const input = `${name}-INPUT`
  const forward = `${name}-FORWARD`

  /** The engine keeps this chain for rules like ours and asks it first; without it the kernel's own chain serves. */
  async function forwardParent(): Promise<string> {
    return (await run('iptables', ['-w', '-n', '-L', 'DOCKER-USER'])).code === 0 ? 'DOCKER-USER' : 'FORWARD'
  }

  async function jump(tool: string, parent: string, chain: string): Promise<void> {
    const rule = ['-i', bridges, '-j', chain]
    if ((await run(tool, ['-w', '-C', parent, ...rule])).code !== 0)
      await must(tool, ['-w', '-I', parent, '1', ...rule])
  }

  async function fill(tool: string, chains: Record<string, string[]>): Promise<void> {
    const heads = Object.keys(chains).map(chain => `:${chain} - [0:0]`)
    const lines = Object.entries(chains).flatMap(([chain, list]) => list.map(rule => `-A ${chain} ${rule}`))
    await must(`${tool}-restore`, ['-w', '--noflush'], ['*filter', ...heads, ...lines, 'COMMIT', ''].join('\n'))
  }

  async function drop(tool: string, parents: readonly string[], chain: string): Promise<void> {
    for (const parent of parents) {
      while ((await run(tool, ['-w', '-D', parent, '-i', bridges, '-j', chain])).code === 0);
    }
    await run(tool, ['-w', '-F', chain])
    await run(tool, ['-w', '-X', chain])
  }

  return {
    async apply() {
      await fill('iptables', { [input]: rules.input, [forward]: rules.forward })
      await jump('iptables', 'INPUT', input)
      await jump('iptables', await forwardParent(), forward)
      // Our networks are IPv4 only; what a bridge carries of IPv6 is nothing but link-local talk to the host.
      if ((await run('ip6tables', ['-w', '-n', '-L', 'INPUT'])).code !== 0) return
      await fill('ip6tables', { [input]: ['-j REJECT'], [forward]: ['-j REJECT'] })
      await jump('ip6tables', 'INPUT', input)
      await jump('ip6tables', 'FORWARD', forward)
    },
    async remove() {
      for (const tool of ['iptables', 'ip6tables']) {
        await drop(tool, ['INPUT'], input)
        await drop(tool, ['DOCKER-USER', 'FORWARD'], forward)
      }
    },
  }
}

/** Takes away what a host put in place; nothing there, or not being root, is success. */
export async function removeFirewall(hostId: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  await iptablesFirewall({ name: chainName(hostId), resolvers: [], allowed: [] }).remove()
}

/** Several hosts and installations on one machine each have chains of their own; a chain's name takes 28 characters. */
function chainName(hostId: string): string {
  return `BERTH-${createHash('sha256').update(hostId).digest('hex').slice(0, 8)}`
}

/** The firewall of this host where it runs as root and has the tool, and the setting lets it. */
export async function openFirewall(
  mode: 'auto' | 'off',
  hostId: string,
  allowed: FirewallTraits['allowed'] = [],
): Promise<OpenedFirewall> {
  if (mode === 'off') return { firewall: null, notice: 'the setting HOST_FIREWALL is off' }
  if (process.getuid?.() !== 0) return { firewall: null, notice: 'the host process does not run as root' }
  const found = await run('iptables', ['-w', '-n', '-L', 'INPUT'])
  if (found.code !== 0) return { firewall: null, notice: `iptables does not work here: ${found.error.split('\n')[0]}` }
  const name = chainName(hostId)
  return { firewall: iptablesFirewall({ name, resolvers: await systemResolvers(), allowed }), notice: null }
}

/** The name servers the engine hands on: the machine's, and those behind a local resolver. */
async function systemResolvers(): Promise<string[]> {
  const files = ['/etc/resolv.conf', '/run/systemd/resolve/resolv.conf']
  const texts = await Promise.all(files.map(file => readFile(file, 'utf8').catch(() => '')))
  return [...new Set(texts.flatMap(nameServers))]
}

async function must(program: string, args: string[], input = ''): Promise<void> {
  const { code, error } = await run(program, args, input)
  if (code !== 0) throw new Error(`${program} ${args.join(' ')}: ${error.trim()}`)
}

/** Exit code and standard error; 127 when there is no such program. */
function run(program: string, args: string[], input = ''): Promise<{ code: number; error: string }> {
  return new Promise(resolve => {
    const child = startProcess(program, args, { env: systemEnvironment, stdio: ['pipe', 'ignore', 'pipe'] })
    let error = ''
    child.stderr!.on('data', chunk => {
      error += chunk
    })
    child.once('error', cause => resolve({ code: 127, error: cause.message }))
    child.once('close', code => resolve({ code: code ?? 1, error }))
    child.stdin!.on('error', () => {}).end(input)
  })
}
