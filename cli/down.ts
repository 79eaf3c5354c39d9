import type { Command } from 'commander'
import { removeFirewall } from '../activities/firewall/iptables.ts'
import { endRecorded } from '../workers/supervisor/process-record.ts'
import { endLeftovers } from '../workers/supervisor/supervisor.ts'
import { runningSupervisor } from '../workers/supervisor/supervisor-lock.ts'
import { loadInstallation, ownDataDir } from './installation/installation.ts'
import {
  endedHost,
  type Forgotten,
  forgetApps,
  type Left,
  type Stopped,
  stopApps,
  unmountVolumes,
} from './services/apps.ts'
import { confirm } from './terminal/confirm.ts'
import { counted, oneLine } from './terminal/printable.ts'

interface DownOptions {
  apps?: boolean
  forget?: boolean
  yes?: boolean
  json?: boolean
}

const help = `
Examples:
  berth down                        stops the platform; applications and databases keep running
  berth down --apps                 stops them too; the next start brings them back
  berth down --apps --forget --yes  removes everything of this installation, and nothing of others, from the engine and the firewall
Files, rows and secrets always stay in the data folder.`

export function downCommand(program: Command): void {
  program
    .command('down')
    .option(
      '--apps',
      'also stop the applications and databases of this machine and remove the firewall rules; the next start restores all',
    )
    .option('--forget', "with --apps: remove this installation's containers and networks from the engine")
    .option('--yes', 'with --forget: do not ask for confirmation')
    .option('--json', 'as one JSON object')
    .addHelpText('after', help)
    .action(async ({ apps, forget, yes, json }: DownOptions) => {
      if (forget && !apps) throw new Error('--forget needs --apps: berth down --apps --forget')
      if (forget) await confirm(`Remove every container and network of ${ownDataDir(process.env)}?`, yes)
      const say = (line: string) => void (json || console.log(line))
      const runFolder = `${ownDataDir(process.env)}/run`
      const supervisor = runningSupervisor(runFolder)
      if (supervisor) await endRecorded(supervisor)
      const leftovers = await endLeftovers(runFolder)
      const wasRunning = Boolean(supervisor || leftovers.length)
      say(wasRunning ? 'Berth is stopped.' : 'Berth was not running.')
      const ended = apps ? await endApps(Boolean(forget)) : null
      for (const line of ended ? words(ended) : []) say(line)
      if (json) console.log(JSON.stringify({ was_running: wasRunning, ...ended }))
      if (ended?.left.length) throw new Error(leftWords(ended.left))
    })
}

/** Ends the applications and databases of this machine, and then their firewall rules and mounts, which those that are left need. */
async function endApps(forget: boolean): Promise<Stopped | Forgotten> {
  const { config } = loadInstallation(process.env)
  const host = endedHost(config)
  const ended = forget ? await forgetApps(host) : await stopApps(host)
  if (ended.left.length > 0) return ended
  await removeFirewall(config.host.id)
  await unmountVolumes(config)
  return ended
}

function leftWords(left: readonly Left[]): string {
  const lines = left.map(({ name, reason }) => `  ${oneLine(name)}: ${oneLine(reason)}`)
  return [`${counted(left.length, 'container')} could not be ended. Repeat the command.`, ...lines].join('\n')
}

function words(ended: Stopped | Forgotten): string[] {
  if ('containers' in ended) {
    const { containers, networks } = ended
    return Object.entries({ containers, networks }).map(
      ([what, names]) =>
        `Removed ${counted(names.length, what.slice(0, -1))}${names.length ? `: ${names.join(', ')}` : ''}.`,
    )
  }
  const { stopped, stopped_databases: databases } = ended
  return [
    `Stopped ${counted(stopped - databases, 'application container')}.`,
    ...(databases ? [`Stopped ${counted(databases, 'database container')}.`] : []),
  ]
}
