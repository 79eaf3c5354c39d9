import type { Command } from 'commander'
import { runningProcesses } from '../workers/supervisor/supervisor.ts'
import { ownDataDir } from './installation/installation.ts'
import { columns } from './terminal/terminal.ts'

export function psCommand(program: Command): void {
  program
    .command('ps')
    .option('--json', 'as a JSON array of {name, pid}')
    .action(({ json }: { json?: boolean }) => {
      const processes = runningProcesses(`${ownDataDir(process.env)}/run`).map(({ name, pid }) => ({ name, pid }))
      processes.sort((a, b) => a.name.localeCompare(b.name))
      if (json) console.log(JSON.stringify(processes))
      else if (processes.length)
        console.log(
          columns(
            processes.map(({ name, pid }) => [name, String(pid)]),
            '',
          ),
        )
      else console.log('Berth is not running. Start it with: berth up')
    })
}
