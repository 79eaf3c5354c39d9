import type { Command } from 'commander'
import type { Plans } from '../policy/accounts/plans.ts'
import { plansOf } from '../workers/adapters/plans.ts'
import { loadInstallation } from './installation/installation.ts'
import { counted } from './terminal/printable.ts'
import { columns } from './terminal/terminal.ts'

export function plansCommand(program: Command): void {
  program
    .command('plans')
    .option('--json', 'in the format of the setting PLANS_FILE')
    .action(({ json }: { json?: boolean }) => {
      const plans = plansOf(loadInstallation(process.env).config)
      console.log(json ? JSON.stringify(Object.fromEntries(plans), null, 2) : plansTable(plans))
    })
}

const head = [
  'PLAN',
  'MEMORY',
  'REQUESTS/MIN',
  'BLOB',
  'SNAPSHOTS/DAY',
  'BALANCERS',
  'WORKSPACES',
  'MEMBERS',
  'HISTORY',
  'S3/10 S',
  'AI TOKENS/DAY',
]

/** `berth plans` for people. */
export function plansTable(plans: Plans): string {
  const rows = [...plans].map(([name, plan]) => [
    name,
    `${plan.memoryMb} MB`,
    String(plan.requestsPerMinute),
    `${plan.blobGb} GB`,
    String(plan.snapshotsPerDay),
    String(plan.balancerGroups),
    String(plan.workspaces),
    String(plan.workspaceMembers),
    counted(plan.historyDays, 'day'),
    String(plan.s3RequestsPer10s),
    String(plan.aiTokensPerDay),
  ])
  return columns([head, ...rows], '')
}
