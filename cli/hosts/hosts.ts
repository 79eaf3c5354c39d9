import type { Command } from 'commander'
import { type Db, transaction } from '../../db/database.ts'
import { type HostRow, listHosts, listReservations, setDraining } from '../../db/hosts/hosts.ts'
import type { BuildFact } from '../../policy/hosts/build-settings.ts'
import { withInstallation } from '../installation/database.ts'
import { recordAct } from '../ops/operator.ts'
import { columns } from '../terminal/terminal.ts'
import { forgetCommand } from './forget.ts'
import { unknownHost } from './unknown-host.ts'

/** A host as operators see it. Sizes in MB. */
interface HostLine {
  name: string
  state: 'open' | 'draining' | 'silent' | 'forgotten'
  address: string
  apps: number
  databases: number
  reserved_mb: number
  memory_mb: number
  reserved_disk_mb: number
  disk_mb: number
  /** Of its cache of install results; null without one. */
  install_cache_mb: number | null
  install_cache_max_mb: number | null
  install_results: number | null
  /** Suffix of the names of its databases, and the address of their URLs where names do not lead there; null until its process has said so. */
  database_domain: string | null
  database_address: string | null
  last_seen_at: string | null
  protections: Record<string, string>
  builds: Record<string, BuildFact>
}

export function hostsCommand(program: Command): void {
  const hosts = program.command('hosts')
  hosts
    .command('list')
    .description('every host: state, what is placed on it, protections')
    .option('--json', 'as a JSON array')
    .action(async ({ json }: { json?: boolean }) => {
      const lines = await withInstallation(({ config }, db) => hostLines(db, config.host.diskMbPer256Mb))
      console.log(json ? JSON.stringify(lines) : table(lines))
    })
  for (const [verb, draining, words] of [
    ['drain', true, 'place nothing new on a host; its applications keep running'],
    ['undrain', false, 'place applications on a drained host again'],
  ] as const) {
    hosts
      .command(verb)
      .description(words)
      .argument('<name>', 'its name in the cluster')
      .action(async (name: string) => {
        await withInstallation((_, db) =>
          transaction(db, async trx => {
            if (!(await setDraining(trx, name, draining))) throw unknownHost(name, await listHosts(trx))
            await recordAct(trx, { action: `hosts.${verb}`, accountId: null, resource: name })
          }),
        )
        console.log(draining ? `Nothing new will be placed on ${name}.` : `${name} accepts applications again.`)
      })
  }
  forgetCommand(hosts)
}

/** A host that left on purpose has no `last_seen_at`. Disk is reserved by the most memory that each has had: `diskMbPer256Mb` for each 256 MB. */
export async function hostLines(db: Db, diskMbPer256Mb: number): Promise<HostLine[]> {
  const reserved = await listReservations(db)
  return (await listHosts(db)).map(host => ({
    name: host.id,
    state: stateOf(host),
    address: host.address,
    apps: reserved.get(host.id)?.apps ?? 0,
    databases: reserved.get(host.id)?.databases ?? 0,
    reserved_mb: reserved.get(host.id)?.memoryMb ?? 0,
    memory_mb: host.memory_mb,
    reserved_disk_mb: (reserved.get(host.id)?.diskUnits ?? 0) * diskMbPer256Mb,
    disk_mb: host.disk_mb,
    install_cache_mb: host.install_cache?.mb ?? null,
    install_cache_max_mb: host.install_cache?.maxMb ?? null,
    install_results: host.install_cache?.results ?? null,
    database_domain: host.database_domain,
    database_address: host.database_addresses?.[0] ?? null,
    last_seen_at: host.last_seen_at.getTime() === 0 ? null : host.last_seen_at.toISOString(),
    protections: host.protections,
    builds: host.builds,
  }))
}

function stateOf({ reachable, draining, forgotten_at }: HostRow): HostLine['state'] {
  if (forgotten_at) return 'forgotten'
  return reachable ? (draining ? 'draining' : 'open') : 'silent'
}

function table(lines: HostLine[]): string {
  const head = ['NAME', 'STATE', 'ADDRESS', 'APPS', 'DATABASES', 'MEMORY', 'DISK', 'INSTALLS', 'PROTECTIONS']
  const rows = lines.map(line => [
    line.name,
    line.state,
    line.address,
    String(line.apps),
    String(line.databases),
    `${line.reserved_mb}/${line.memory_mb} MB`,
    `${line.reserved_disk_mb}/${line.disk_mb} MB`,
    line.install_cache_mb === null ? '-' : `${line.install_cache_mb}/${line.install_cache_max_mb} MB`,
    Object.entries(line.protections)
      .map(([protection, state]) => `${protection}: ${state}`)
      .join('; '),
  ])
  return columns([head, ...rows], '')
}
