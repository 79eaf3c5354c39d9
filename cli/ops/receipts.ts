import type { Command } from 'commander'
import {
  findReceipts,
  listReceiptLines,
  listReceipts,
  type ReceiptLineRow,
  type ReceiptRow,
} from '../../db/objects/blob-receipts.ts'
import { type Upkeep, upkeep, upkeepKinds } from '../../policy/objects/blob-upkeep.ts'
import { gigabytes } from '../blob.ts'
import { withInstallation } from '../installation/database.ts'
import { limitFrom } from '../terminal/options.ts'
import { columns } from '../terminal/terminal.ts'
import { age, clock } from './ops-words.ts'

interface ListOptions {
  kind?: string
  all?: boolean
  limit: string
  json?: boolean
}

/** What the platform removed automatically: below `berth ops`. */
export function receiptCommands(ops: Command): void {
  ops
    .command('receipts')
    .description('what the platform removed from blob storage automatically, newest first')
    .option('--kind <kind>', upkeepKinds.join(', '))
    .option('--all', 'also runs that found nothing to do')
    .option('--limit <n>', 'maximum number of entries', '20')
    .option('--json', 'as a JSON array')
    .action(async ({ kind, all = false, limit, json }: ListOptions) => {
      const most = limitFrom(limit)
      const filter = { kind: kindFrom(kind), idle: all, limit: most }
      const rows = await withInstallation((_, db) => listReceipts(db, filter))
      console.log(json ? JSON.stringify(rows) : receiptTable(rows, new Date()))
    })
  ops
    .command('receipt')
    .description('one of these runs: what was removed, why, and whether that was verified')
    .argument('<id>', 'the id, or its first characters')
    .option('--limit <n>', 'maximum number of lines', '1000')
    .option('--json', 'as one JSON object')
    .action(async (start: string, { limit, json }: { limit: string; json?: boolean }) => {
      const most = limitFrom(limit)
      const { receipt, lines } = await withInstallation(async (_, db) => {
        const [receipt, ...others] = await findReceipts(db, start)
        if (!receipt) throw new Error(`There is no receipt "${start}". See: berth ops receipts`)
        if (others.length > 0) throw new Error(`"${start}" matches several receipts.`)
        return { receipt, lines: await listReceiptLines(db, receipt.id, most) }
      })
      console.log(json ? JSON.stringify({ ...receipt, lines }) : receiptStory(receipt, lines))
    })
}

/** `berth ops receipts` for people. */
function receiptTable(rows: readonly ReceiptRow[], now: Date): string {
  if (rows.length === 0) return 'Nothing was removed.'
  const lines = rows.map(row => [
    row.id.slice(0, 8),
    row.kind,
    `${age(row.began_at, now)} ago`,
    String(row.removed),
    gigabytes(row.bytes),
    end(row),
  ])
  return columns([['ID', 'KIND', 'BEGAN', 'LINES', 'BYTES', 'END'], ...lines], '')
}

function end({ ended_at, failure, unproved }: ReceiptRow): string {
  if (failure) return `FAILED: ${failure}`
  if (!ended_at) return 'running, or lost'
  return unproved > 0 ? `${unproved} STILL PRESENT when verified` : 'all verified as removed'
}

/** `berth ops receipt` for people. */
function receiptStory(receipt: ReceiptRow, lines: readonly ReceiptLineRow[]): string {
  const head = `${receipt.id}  ${receipt.kind}: ${upkeep[receipt.kind].words}, ${clock(receipt.began_at)}`
  const body = lines.flatMap(line => [
    `${clock(line.at)}  ${line.subject}  ${line.bytes} bytes`,
    `  why: ${line.why}`,
    `  verified: ${line.proof ?? 'not yet'}${line.proved_at ? `, ${clock(line.proved_at)}` : ''}`,
    ...line.bodies.map(({ id, state }) => `  segment ${id}: ${state}`),
  ])
  const more = receipt.removed > lines.length ? [`and ${receipt.removed - lines.length} more; see --limit`] : []
  return [head, `  ${end(receipt)}`, ...body, ...more].join('\n')
}

function kindFrom(text: string | undefined): Upkeep | undefined {
  const match = upkeepKinds.find(kind => kind === text)
  if (text !== undefined && !match) throw new Error(`--kind must be one of: ${upkeepKinds.join(', ')}`)
  return match
}
