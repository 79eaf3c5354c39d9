import type { Command } from 'commander'
import type { Db } from '../../db/database.ts'
import type { DatabaseAct } from '../../db/databases/database-acts.ts'
import {
  type DrillEvidence,
  drillSeconds,
  findDrill,
  listDrills,
  listFailingDrills,
  listPreventedDrills,
  queueDrill,
} from '../../db/databases/database-drills.ts'
import { listOperatedDatabases, type OperatedDatabase } from '../../db/databases/database-operator.ts'
import { ActRefused } from '../../db/operations/operator-acts.ts'
import type { Finding } from '../doctor/findings.ts'
import { withInstallation } from '../installation/database.ts'
import { clock } from '../ops/ops-words.ts'
import { limitFrom, secondsFrom } from '../terminal/options.ts'
import { oneLine } from '../terminal/printable.ts'
import { columns } from '../terminal/terminal.ts'
import { databaseIdFrom, idWords } from './database-id.ts'
import { type ActPlace, performAct, unsuccessful } from './requested-act.ts'

interface DrillOptions {
  all?: boolean
  list?: boolean
  limit: string
  wait: string
  json?: boolean
}

const help = `
The newest snapshot is restored into a scratch engine, on another host where one has the image and room, and its contents are compared
with those recorded when it was taken. The running database is not touched, and the copy is removed. Each host runs one drill at a time. Berth
runs drills automatically every DATABASE_DRILL_DAYS days. The evidence is retained for 400 days: --list shows it, newest first.`

export function drillCommand(databases: Command): void {
  databases
    .command('drill')
    .description('prove that the newest snapshot of a database can be restored, without touching the running database')
    .argument('[id]', idWords)
    .option('--all', 'every database that has a snapshot, one after the other')
    .option('--list', 'do nothing; show the evidence of earlier drills')
    .option('--limit <n>', 'with --list: maximum number of entries', '50')
    .option('--wait <seconds>', 'maximum time to wait for each', '3600')
    .option('--json', 'as a JSON array of evidence')
    .addHelpText('after', help)
    .action(drill)
}

async function drill(start: string | undefined, { all, list, limit, wait, json }: DrillOptions): Promise<void> {
  const max = limitFrom(limit)
  if (!list && (start === undefined) === !all) throw new Error('Specify one database, --all or --list.')
  await withInstallation(async (installation, db) => {
    const place = { installation, db, waitSeconds: secondsFrom(wait) }
    const databaseId = start === undefined ? undefined : await databaseIdFrom(db, start)
    if (list) {
      const evidence = await listDrills(db, { databaseId, limit: max })
      return console.log(json ? JSON.stringify(evidence.map(drillView)) : drillTable(evidence))
    }
    const rows = await listOperatedDatabases(db, { id: databaseId, limit: 1_000_000 })
    await drillEach(place, rows.reverse(), { json: Boolean(json), one: databaseId !== undefined })
  })
}

/** One after the other; prints each as it ends, also after a failure. Throws an Error at the end if one has failed. */
async function drillEach(
  place: ActPlace,
  databases: readonly OperatedDatabase[],
  { json, one }: { json: boolean; one: boolean },
): Promise<void> {
  const { db, installation } = place
  const terms = { diskMbPer256Mb: installation.config.host.diskMbPer256Mb, evenBusy: true }
  const evidence: DrillEvidence[] = []
  const failures: string[] = []
  for (const database of databases) {
    const of = oneLine(`${database.id.slice(0, 8)} ${database.name}`)
    const request = async (trx: Db, act: DatabaseAct) => (await queueDrill(trx, act, terms))!
    const ended = await performAct(place, database, 'databases.drill', request).catch(error => {
      if (error instanceof ActRefused) return error
      throw error
    })
    if (ended instanceof ActRefused) {
      if (one) throw ended
      if (!json) console.log(`${of}: skipped. ${ended.message}`)
      continue
    }
    const shown = await findDrill(db, ended.id)
    if (shown) evidence.push(shown)
    if (shown && !json) console.log(`${of}: ${drillWords(shown)}`)
    if (shown?.outcome !== 'good') failures.push(`${of}: ${shown ? shown.reason : unsuccessful(ended)}`)
  }
  if (json) console.log(JSON.stringify(evidence.map(drillView)))
  if (failures.length > 0) throw new Error(`${failures.length} of the drills did not succeed:\n${failures.join('\n')}`)
}

/** What one drill has shown, in one line. */
export function drillWords(evidence: DrillEvidence): string {
  const { outcome, host_id: hostId, snapshot_at: taken, size, reason } = evidence
  const of = taken ? `the snapshot of ${clock(taken)}Z` : 'the snapshot'
  if (outcome === 'prevented')
    return oneLine(
      `PREVENTED on host ${hostId} after ${drillSeconds(evidence)} s: ${of} could not be tested. ${reason}`,
    )
  if (outcome === 'failed')
    return oneLine(`FAILED on host ${hostId} after ${drillSeconds(evidence)} s: ${of} could not be restored. ${reason}`)
  const bytes = size === null ? '' : ` (${Math.ceil(Number(size) / 1024)} KB)`
  return `good: ${of}${bytes} was restored on host ${hostId} in ${drillSeconds(evidence)} s, and its contents match those recorded`
}

function drillTable(evidence: readonly DrillEvidence[]): string {
  if (evidence.length === 0) return 'No drills yet.'
  const head = ['ENDED', 'DATABASE', 'SNAPSHOT OF', 'HOST', 'TOOK', 'BYTES', 'OUTCOME']
  const rows = evidence.map(one => [
    `${clock(one.ended_at).slice(0, 19)}Z`,
    one.database_id.slice(0, 8),
    one.snapshot_at ? `${clock(one.snapshot_at).slice(0, 19)}Z` : '-',
    one.host_id,
    `${drillSeconds(one)} s`,
    one.size ?? '-',
    one.outcome === 'good' ? 'good' : oneLine(`${one.outcome.toUpperCase()}: ${one.reason}`),
  ])
  return columns([head, ...rows], '')
}

/** The same for scripts: exactly these keys, which docs/json-output.md lists. */
export function drillView(one: DrillEvidence) {
  const { operation_id: operation, database_id: database, owner_id, snapshot_id: snapshot, snapshot_at } = one
  const { host_id, outcome, code, reason, digest, expected, started_at, ended_at, actor } = one
  return {
    ...{
      operation,
      database,
      owner_id,
      snapshot,
      snapshot_at,
      host_id,
      outcome,
      code,
      reason,
      digest,
      expected_digest: expected,
    },
    ...{ size: one.size === null ? null : Number(one.size), seconds: drillSeconds(one), started_at, ended_at, actor },
  }
}

/** Whether the newest snapshots that were tried could be restored, and whether others are tried at all. `everyDays`: after which they are to be. */
export async function drillFinding(db: Db, everyDays: number): Promise<Finding> {
  const name = 'drills of databases'
  const failing = await listFailingDrills(db)
  const prevented = await listPreventedDrills(db, { everyDays })
  const [newest] = await listDrills(db, { limit: 1 })
  const states: string[] = []
  const remedies: string[] = []
  if (failing.length > 0) {
    states.push(`SNAPSHOTS OF ${failing.length} DATABASES COULD NOT BE RESTORED: ${idsOf(failing)}`)
    remedies.push(
      `why: berth databases drill --list; create a new snapshot of each, then berth databases drill ${shortId(failing[0]!)}`,
    )
  }
  const [last] = prevented
  if (last) {
    states.push(
      `SNAPSHOTS OF ${prevented.length} DATABASES HAVE NOT BEEN TESTED FOR ${2 * everyDays} DAYS: ${idsOf(prevented)}`,
    )
    remedies.push(
      oneLine(`host ${last.host_id} could not test that of ${shortId(last)}: ${last.reason}`),
      `remove the cause, then berth databases drill ${shortId(last)}`,
    )
  }
  if (states.length > 0) return { name, state: states.join('; '), remedy: remedies.join('; ') }
  return { name, state: newest ? `no failures; the last one finished ${clock(newest.ended_at)}Z` : 'none yet' }
}

const shortId = ({ database_id: id }: DrillEvidence): string => id.slice(0, 8)

const idsOf = (drills: readonly DrillEvidence[]): string =>
  [...drills.slice(0, 5).map(shortId), ...(drills.length > 5 ? ['...'] : [])].join(', ')
