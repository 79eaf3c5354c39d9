import type { Command } from 'commander'
import {
  findReceipts,
  linesOf,
  listReceipts,
  type ReceiptLineRow,
  type ReceiptRow,
} from '../../db/objects/blob-receipts.ts'
import { type Upkeep, upkeep, upkeepKinds } from '../../policy/objects/blob-upkeep.ts'
import { gigabytes } from '../blob.ts'
import { withInstallation } from '../installation/database.ts'
import { columns } from '../terminal/terminal.ts'
import { age, clock } from './ops-words.ts'

interface ListOptions {
  kind?: string
  all?: boolean
  limit: string
  json?: boolean
}

/** What the platform removed by itself: below `berth ops`. */
export function receiptCommands(ops: Command): void {
  ops
    .command('receipts')
    .description('what the platform removed from blob storage by itself, newest first')
    .option('--kind <kind>', upkeepKinds.join(', '))
    .option('--all', 'also runs that found nothing to do')
    .option('--limit <n>', 'at most this many', '20')
    .option('--json', 'as a JSON array')
    .action(async ({ kind, all = false, limit, json }: ListOptions) => {
      if (!/^[1-9]\d{0,5}$/.test(limit)) throw new Error('--limit must be a whole number from 1.')
      const filter = { kind: knownKind(kind), idle: all, limit: Number(limit) }
      const rows = await withInstallation((_, db) => listReceipts(db, filter))
      console.log(json ? JSON.stringify(rows) : receiptTable(rows, new Date()))
    })
  ops
    .command('receipt')
    .description('one of these runs: what went, why, and what was found when it was looked for again')
    .argument('<id>', 'its first characters do')
    .option('--limit <n>', 'at most this many lines', '1000')
    .option('--json', 'as one JSON object')
    .action(async (start: string, { limit, json }: { limit: string; json?: boolean }) => {
      if (!/^[1-9]\d{0,5}$/.test(limit)) throw new Error('--limit must be a whole number from 1.')
      const { receipt, lines } = await withInstallation(async (_, db) => {
        const [receipt, ...others] = await findReceipts(db, start)
        if (!receipt) throw new Error(`There is no receipt "${start}". See: berth ops receipts`)
        if (others.length > 0) throw new Error(`"${start}" can mean several receipts.`)
        return { receipt, lines: await linesOf(db, receipt.id, Number(limit)) }
      })
      console.log(json ? JSON.stringify({ ...receipt, lines }) : receiptStory(receipt, lines))
    })
}

/** `berth ops receipts` for people. */
export function receiptTable(rows: readonly ReceiptRow[], now: Date): string {
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
  if (!ended_at) return 'runs, or was lost'
  return unproved > 0 ? `${unproved} STILL THERE when looked for` : 'all gone when looked for'
}

/** `berth ops receipt` for people. */
export function receiptStory(receipt: ReceiptRow, lines: readonly ReceiptLineRow[]): string {
  const head = `${receipt.id}  ${receipt.kind}: ${upkeep[receipt.kind].words}, ${clock(receipt.began_at)}`
  const body = lines.flatMap(line => [
    `${clock(line.at)}  ${line.subject}  ${line.bytes} bytes`,
    `  why: ${line.why}`,
    `  looked for: ${line.proof ?? 'not yet'}${line.proved_at ? `, ${clock(line.proved_at)}` : ''}`,
    ...line.bodies.map(({ id, state }) => `  body ${id}: ${state}`),
  ])
  const more = receipt.removed > lines.length ? [`and ${receipt.removed - lines.length} more; see --limit`] : []
  return [head, `  ${end(receipt)}`, ...body, ...more].join('\n')
}

function knownKind(text: string | undefined): Upkeep | undefined {
  const known = upkeepKinds.find(kind => kind === text)
  if (text !== undefined && !known) throw new Error(`--kind must be one of: ${upkeepKinds.join(', ')}`)
  return known
}
