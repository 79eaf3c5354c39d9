import type { Command } from 'commander'
import { type Db, transaction } from '../../db/database.ts'
import {
  findLastSwap,
  isUndoable,
  lockForAct,
  nothingToUndo,
  queueOperatorStart,
  queueUndo,
} from '../../db/databases/database-acts.ts'
import { findOperatedDatabase, type OperatedDatabase } from '../../db/databases/database-operator.ts'
import type { OperationRow } from '../../db/operations/operations.ts'
import { withInstallation } from '../installation/database.ts'
import { clock } from '../ops/ops-words.ts'
import { confirm } from '../terminal/confirm.ts'
import { secondsFrom } from '../terminal/options.ts'
import { oneLine } from '../terminal/printable.ts'
import { databaseIdFrom, idWords } from './database-id.ts'
import { type ActPlace, operationView, performAct, unsuccessful } from './requested-act.ts'

interface ActOptions {
  yes?: boolean
  wait: string
  json?: boolean
}

const undoHelp = `
A restore creates a new volume and retains the previous one for a day. Undo swaps the two with one restart; the address and the current
password do not change. To reverse it, run undo again within a day. If the engine cannot serve the older data, nothing changes.`

const startHelp = `
For a database that should be running but is down, such as after five crashes in a row: the crash counter is reset. The end of its log shows
why it crashed: berth databases explain <id>. A database that its owner stopped can only be started by its owner.`

/** `berth databases undo` and `start`. */
export function actCommands(databases: Command): void {
  databases
    .command('undo')
    .description('return to the data before the last restore, which is retained for a day')
    .argument('<id>', idWords)
    .option('--yes', 'do not ask for confirmation')
    .option('--wait <seconds>', 'maximum time to wait until it is running', '300')
    .option('--json', 'print the outcome as one JSON object')
    .addHelpText('after', undoHelp)
    .action(undo)
  databases
    .command('start')
    .description('start a database that should be running but is down')
    .argument('<id>', idWords)
    .option('--wait <seconds>', 'maximum time to wait until it is running', '120')
    .option('--json', 'print the outcome as one JSON object')
    .addHelpText('after', startHelp)
    .action(start)
}

async function undo(start: string, { yes, wait, json }: ActOptions): Promise<void> {
  await withInstallation(async (installation, db) => {
    const place = { installation, db, waitSeconds: secondsFrom(wait) }
    const database = await databaseFrom(db, start)
    const { id, name } = database
    // Refused before it is confirmed, and once more in the transaction that requests it.
    await transaction(db, trx => lockForAct(trx, id))
    if (!isUndoable(database, new Date())) throw new Error(nothingToUndo)
    const change = await lastChange(db, id)
    await confirm(prospect(database, change), yes)
    const operation = await performAct(place, database, 'databases.undo', queueUndo)
    const retiredUntil = (await findOperatedDatabase(db, id))?.retired_until
    const words = [
      `The database ${oneLine(name)} now has the data from before ${change}.`,
      `Its previous data is retained${retiredUntil ? ` until ${clock(retiredUntil)}Z` : ''}. To restore it: berth databases undo ${id.slice(0, 8)}`,
    ]
    report(operation, words.join('\n'), json)
  })
}

/** The restore, or undo, that has replaced the volume last, in words. */
async function lastChange(db: Db, id: string): Promise<string> {
  const row = await findLastSwap(db, id)
  return row ? `the ${row.kind} of ${clock(row.finished_at)}Z` : 'the last restore'
}

function prospect({ id, name, owner_email: owner, status }: OperatedDatabase, change: string): string {
  return [
    oneLine(`The database ${name} (${id}) of ${owner} returns to the data that it had before ${change}.`),
    '  Data written since then is removed from it, but retained for a day: another undo restores it.',
    status === 'running'
      ? '  It is unavailable for a few seconds, and its connections are closed. The current password does not change.'
      : '  The current password does not change.',
    'Continue?',
  ].join('\n')
}

async function start(start: string, { wait, json }: ActOptions): Promise<void> {
  await withInstallation(async (installation, db) => {
    const place: ActPlace = { installation, db, waitSeconds: secondsFrom(wait) }
    const database = await databaseFrom(db, start)
    const operation = await performAct(place, database, 'databases.start', queueOperatorStart)
    report(operation, `The database ${oneLine(database.name)} runs.`, json)
  })
}

/** Prints the outcome. Without success the command fails: for people with an Error that says why, for scripts by its exit code. */
function report(operation: OperationRow<string>, words: string, json: boolean | undefined): void {
  const ok = operation.state === 'success'
  if (!json && !ok) throw new Error(unsuccessful(operation))
  console.log(json ? JSON.stringify(operationView(operation)) : words)
  if (!ok) process.exitCode = 1
}

async function databaseFrom(db: Db, start: string): Promise<OperatedDatabase> {
  const id = await databaseIdFrom(db, start)
  const database = await findOperatedDatabase(db, id)
  if (!database) throw new Error(`The database ${id} was deleted a moment ago.`)
  return database
}
