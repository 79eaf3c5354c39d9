import type { Command } from 'commander'
import { type AuditRow, latestAudit, listAudit } from '../db/audit.ts'
import { retentionTimes } from '../policy/retention.ts'
import { withInstallation } from './installation/database.ts'
import { limitFrom } from './terminal/options.ts'
import { columns } from './terminal/terminal.ts'
import { userId } from './users.ts'

interface AuditOptions {
  user?: string
  limit: string
  json?: boolean
}

export function auditCommand(program: Command): void {
  program
    .command('audit')
    .option('--user <user>', 'id or e-mail address; default: every account')
    .option('--limit <n>', 'maximum number of entries', '50')
    .option('--json', 'as a JSON array')
    .action(async ({ user, limit, json }: AuditOptions) => {
      const most = limitFrom(limit)
      const rows = await withInstallation(async (_, db) =>
        user
          ? listAudit(db, await userId(db, user), { days: retentionTimes.auditDays, limit: most })
          : latestAudit(db, most),
      )
      console.log(json ? JSON.stringify(rows) : table(rows))
    })
}

function table(rows: readonly AuditRow[]): string {
  if (rows.length === 0) return 'No entries.'
  const lines = rows.map(row => [
    row.at.toISOString().slice(0, 19),
    row.actor,
    row.action,
    row.resource ?? '',
    row.result,
    row.operation_id?.slice(0, 8) ?? '',
  ])
  return columns([['AT', 'ACTOR', 'ACTION', 'RESOURCE', 'RESULT', 'OPERATION'], ...lines], '')
}
