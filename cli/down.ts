import type { Command } from 'commander'
import { removeFirewall } from '../activities/firewall/iptables.ts'
import { endRecorded } from '../workers/supervisor/process-record.ts'
import { endLeftovers } from '../workers/supervisor/supervisor.ts'
import { runningSupervisor } from '../workers/supervisor/supervisor-lock.ts'
import { loadInstallation, ownDataDir } from './installation/installation.ts'
import { type Forgotten, forgetApps, stopApps, unmountVolumes } from './services/apps.ts'
import { confirm } from './terminal/confirm.ts'

interface DownOptions {
  apps?: boolean
  forget?: boolean
  yes?: boolean
  json?: boolean
}

const help = `
Examples:
  berth down                        the platform ends, applications go on
  berth down --apps                 applications end too; the next start brings them back
  berth down --apps --forget --yes  the engine and the firewall keep nothing of this installation, others keep theirs
Files, rows and secrets stay in the data folder in every case.`

export function downCommand(program: Command): void {
  program
    .command('down')
    .description('stop the platform; applications and data stay')
    .option(
      '--apps',
      'stop the applications of this machine too, and take the firewall rules away; the next start brings both back',
    )
    .option('--forget', "with --apps: take this installation's containers and networks out of the engine")
    .option('--yes', 'with --forget: do not ask')
    .option('--json', 'as one JSON object')
    .addHelpText('after', help)
    .action(async ({ apps, forget, yes, json }: DownOptions) => {
      if (forget && !apps) throw new Error('--forget goes with --apps: berth down --apps --forget')
      if (forget) await confirm(`Take away every container and network of ${ownDataDir(process.env)}?`, yes)
      const say = (line: string) => void (json || console.log(line))
      const runFolder = `${ownDataDir(process.env)}/run`
      const supervisor = runningSupervisor(runFolder)
      if (supervisor) await endRecorded(supervisor)
      const left = await endLeftovers(runFolder)
      const wasRunning = Boolean(supervisor || left.length)
      say(wasRunning ? 'Berth is stopped.' : 'Berth was not running.')
      const ended = apps ? await endApps(Boolean(forget)) : {}
      for (const line of Object.entries<number | string[]>({ ...ended }).map(words)) say(line)
      if (json) console.log(JSON.stringify({ was_running: wasRunning, ...ended }))
    })
}

/** The applications of this machine, their rules and mounts. */
async function endApps(forget: boolean): Promise<{ stopped: number } | Forgotten> {
  const { config } = loadInstallation(process.env)
  const { dockerHost, id } = config.host
  const ended = forget ? await forgetApps(dockerHost, id) : { stopped: await stopApps(dockerHost, id) }
  await removeFirewall(id)
  await unmountVolumes(config)
  return ended
}

function words([what, which]: [string, number | string[]]): string {
  if (typeof which === 'number') return `Stopped ${which} application container${which === 1 ? '' : 's'}.`
  return `Took away ${which.length} ${which.length === 1 ? what.slice(0, -1) : what}${which.length ? `: ${which.join(', ')}` : ''}.`
}
