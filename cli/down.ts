import type { Command } from 'commander'
import { removeFirewall } from '../activities/firewall.iptables.ts'
import { endRecorded } from '../workers/process-record.ts'
import { endLeftovers } from '../workers/supervisor.ts'
import { runningSupervisor } from '../workers/supervisor-lock.ts'
import { dataDirOf, loadInstallation } from './installation.ts'
import { stopApps, unmountVolumes } from './parts/apps.ts'

export function downCommand(program: Command): void {
  program
    .command('down')
    .description('stop the platform; applications and data stay')
    .option(
      '--apps',
      'stop the applications of this machine too, and take the firewall rules away; the next start brings both back',
    )
    .action(async ({ apps }: { apps?: boolean }) => {
      const runFolder = `${dataDirOf(process.env)}/run`
      const supervisor = runningSupervisor(runFolder)
      if (supervisor) await endRecorded(supervisor)
      const left = await endLeftovers(runFolder)
      console.log(supervisor || left.length ? 'Berth is stopped.' : 'Berth was not running.')
      if (!apps) return
      const { config } = loadInstallation(process.env)
      const stopped = await stopApps(config.host.dockerHost, config.host.id)
      await removeFirewall(config.host.id)
      await unmountVolumes(config)
      console.log(`Stopped ${stopped} application container${stopped === 1 ? '' : 's'}.`)
    })
}
