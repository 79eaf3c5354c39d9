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
A restore makes a new volume, and keeps the one before for a day. This puts the one before in its place, by one stop and one start at the
same address, and keeps the other for a day: undo it again to come back. If the engine does not serve the older data, it continues with
what it has. The password stays the present one.`

const startHelp = `
For a database that should run and does not, such as one that stays down after five crashes in a row: its crashes no longer count. The end
of its log says why it crashed: berth databases explain <id>. What its owner has stopped, its owner starts.`

/** `berth databases undo` and `start`. */
export function actCommands(databases: Command): void {
  databases
    .command('undo')
    .description('go back to the data before the last restore, which are kept for a day')
    .argument('<id>', idWords)
    .option('--yes', 'do not ask for confirmation')
    .option('--wait <seconds>', 'maximum time to wait until it serves', '300')
    .option('--json', 'print the outcome as one JSON object')
    .addHelpText('after', undoHelp)
    .action(undo)
  databases
    .command('start')
    .description('start a database that should run and stays down')
    .argument('<id>', idWords)
    .option('--wait <seconds>', 'maximum time to wait until it serves', '120')
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
      `The database ${oneLine(name)} has the data from before ${change}.`,
      `What it had until now is kept${retiredUntil ? ` until ${clock(retiredUntil)}Z` : ''}: berth databases undo ${id.slice(0, 8)} brings it back.`,
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
    oneLine(`The database ${name} (${id}) of ${owner} gets the data back that it had before ${change}.`),
    '  What was written since then will no longer be in it. That is kept for a day: another undo brings it back.',
    status === 'running'
      ? '  It is away for some seconds, and every connection ends. The password stays the present one.'
      : '  The password stays the present one.',
    'Go back?',
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
