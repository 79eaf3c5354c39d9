import type { Command } from 'commander'
import type { Db } from '../../db/database.ts'
import { queueUpgrade } from '../../db/databases/database-acts.ts'
import { listOperatedDatabases, type OperatedDatabase } from '../../db/databases/database-operator.ts'
import { listRecentlySnapshotted } from '../../db/databases/database-snapshots.ts'
import { type HostRow, listHosts } from '../../db/hosts/hosts.ts'
import type { OperationRow } from '../../db/operations/operations.ts'
import { ActRefused } from '../../db/operations/operator-acts.ts'
import { wayBack } from '../../policy/databases/drills.ts'
import { withInstallation } from '../installation/database.ts'
import { isPending } from '../ops/lane.ts'
import { confirm } from '../terminal/confirm.ts'
import { secondsFrom } from '../terminal/options.ts'
import { oneLine } from '../terminal/printable.ts'
import { columns } from '../terminal/terminal.ts'
import { databaseIdFrom, idWords } from './database-id.ts'
import { type ActPlace, operationView, performAct, unsuccessful } from './requested-act.ts'

interface UpgradeOptions {
  all?: boolean
  withoutSnapshot?: boolean
  dryRun?: boolean
  yes?: boolean
  wait: string
  json?: boolean
}

const help = `
A database keeps the image it was first started with, even if a newer one is pulled under the same name. An upgrade switches to the newer
image with one restart. If the database does not work with it, the old image is used again. The major version never changes. A newer minor
version may change the files so that the old one cannot read them, so a good snapshot from the last 24 hours is required. A stopped database
stays stopped; the image is tested where no client can connect.
--all upgrades one database after the other, host by host, and stops at the first failure. If interrupted, run it again.`

export function upgradeCommand(databases: Command): void {
  databases
    .command('upgrade')
    .description('upgrade a database to the minor version of the image that is now on its host')
    .argument('[id]', idWords)
    .option('--all', 'every database, one after the other, until the first failure')
    .option(
      '--without-snapshot',
      'also upgrade databases without a snapshot from the last 24 hours; these cannot be rolled back',
    )
    .option('--dry-run', 'only show the image of each database and the one it would get')
    .option('--yes', 'do not ask for confirmation')
    .option('--wait <seconds>', 'maximum time to wait for each', '600')
    .option('--json', 'as a JSON array')
    .addHelpText('after', help)
    .action(upgrade)
}

async function upgrade(start: string | undefined, options: UpgradeOptions): Promise<void> {
  const { all, withoutSnapshot, dryRun, yes, wait, json } = options
  if ((start === undefined) === !all) throw new Error('Specify one database, or --all.')
  await withInstallation(async (installation, db) => {
    const place = { installation, db, waitSeconds: secondsFrom(wait) }
    const candidates = await candidatesOf(db, start, Boolean(withoutSnapshot))
    if (dryRun) return console.log(json ? JSON.stringify(candidates.map(planView)) : planTable(candidates))
    if (candidates.length > 0) await confirm(prospect(candidates), yes)
    await upgradeEach(place, candidates, Boolean(json))
  })
}

type Plan = 'upgrade' | 'current' | 'not recorded' | 'host silent' | 'no image' | 'no snapshot'

interface Candidate {
  database: OperatedDatabase
  plan: Plan
  /** Id of the image that its host has under the name of its image; null = not known. */
  offered: string | null
}

/** The databases in question that an upgrade is possible for, host by host, oldest first. */
async function candidatesOf(db: Db, start: string | undefined, withoutSnapshot: boolean): Promise<Candidate[]> {
  const id = start === undefined ? undefined : await databaseIdFrom(db, start)
  const hosts = new Map((await listHosts(db)).map(host => [host.id, host]))
  const rows = await listOperatedDatabases(db, { id, limit: maxDatabases })
  const returnable = await listRecentlySnapshotted(db, wayBack.snapshotHours)
  const mayLose = (database: OperatedDatabase) => withoutSnapshot || returnable.has(database.id)
  return rows
    .filter(({ lost_with, status }) => id !== undefined || (lost_with === null && status !== 'created'))
    .reverse()
    .sort((a, b) => a.host_id.localeCompare(b.host_id))
    .map(database => ({ database, ...planOf(database, hosts.get(database.host_id), mayLose(database)) }))
}

const maxDatabases = 1_000_000

function planOf(
  database: OperatedDatabase,
  host: HostRow | undefined,
  mayLose: boolean,
): Pick<Candidate, 'plan' | 'offered'> {
  const offered = host?.database_image_ids[database.image] ?? null
  if (!host?.reachable) return { plan: 'host silent', offered }
  if (offered !== null && offered === database.image_id) return { plan: 'current', offered }
  if (!mayLose) return { plan: 'no snapshot', offered }
  if (offered === null) return { plan: 'no image', offered }
  return { plan: database.image_id === null ? 'not recorded' : 'upgrade', offered }
}

const planWords: Record<Plan, string> = {
  upgrade: 'would be upgraded',
  current: 'has the current image',
  'not recorded': 'unknown: its image is recorded at the next start',
  'host silent': 'HOST IS SILENT: cannot be upgraded now',
  'no snapshot': 'HAS NO SNAPSHOT FROM THE LAST 24 HOURS: cannot be upgraded',
  'no image': 'ITS HOST HAS NO SUCH IMAGE, or has not checked yet',
}

/** Docker's short form. */
export const shortId = (imageId: string | null): string => imageId?.replace(/^sha256:/, '').slice(0, 12) ?? '-'

function planTable(candidates: readonly Candidate[]): string {
  if (candidates.length === 0) return 'No databases.'
  const head = ['ID', 'NAME', 'HOST', 'IMAGE', 'RUNS WITH', 'HOST HAS', 'PLAN']
  const rows = candidates.map(({ database: { id, name, host_id, image, image_id }, plan, offered }) => [
    ...[id.slice(0, 8), oneLine(name), host_id, image, shortId(image_id), shortId(offered), planWords[plan]],
  ])
  return columns([head, ...rows], '')
}

const planView = ({ database, plan, offered }: Candidate) => ({
  ...{ database: database.id, name: database.name, host_id: database.host_id, image: database.image },
  ...{ image_id: database.image_id, offered_image_id: offered, plan },
})

function prospect(candidates: readonly Candidate[]): string {
  const [first] = candidates
  const what =
    candidates.length === 1 ? `The database ${oneLine(first!.database.name)}` : `Each of ${candidates.length} databases`
  return [
    `${what} is upgraded to the current image of its host, if that is another one. It is unavailable for a few seconds, and its connections are closed.`,
    'Upgrade?',
  ].join('\n')
}

/** One after the other; prints each as it ends. Throws an Error at the first that does not succeed. */
async function upgradeEach(place: ActPlace, candidates: readonly Candidate[], json: boolean): Promise<void> {
  const outcomes: Outcome[] = []
  let failure: string | null = null
  for (const candidate of candidates) {
    const { id, name, host_id: hostId } = candidate.database
    const { operation, why } = await upgradeOne(place, candidate)
    if (operation) outcomes.push({ ...operationView(operation), ...imagesOf(operation, candidate) })
    const of = oneLine(`${id.slice(0, 8)} ${name} on ${hostId}`)
    failure = why === null ? null : `${of}: ${why}`
    if (failure !== null) break
    if (!json) console.log(`${of}: ${doneWords(outcomes.at(-1)!)}`)
  }
  if (json) console.log(JSON.stringify(outcomes))
  const done = outcomes.filter(({ state }) => state === 'success').length
  const left = candidates.length - done - 1
  if (failure !== null) throw new Error(`${failure}${left > 0 ? `\nStopped here: ${left} more were not touched.` : ''}`)
  if (!json && candidates.length !== 1) console.log(`${done} databases have the current image of their host.`)
}

/** Ids of images. */
interface Images {
  from: string | null
  to: string | null
}

type Outcome = ReturnType<typeof operationView> & Images

const imagesOf = ({ input }: OperationRow<string>, { database, offered }: Candidate): Images =>
  (input.images as Images | undefined) ?? { from: database.image_id, to: offered }

const doneWords = ({ from, to }: Images): string =>
  from === to ? `already has the current image, ${shortId(to)}` : `upgraded from ${shortId(from)} to ${shortId(to)}`

/** The operation, unless there was none, and why it has not succeeded, or null. */
async function upgradeOne(
  place: ActPlace,
  { database, plan }: Candidate,
): Promise<{ operation: OperationRow<string> | null; why: string | null }> {
  if (plan === 'host silent')
    return {
      operation: null,
      why: `its host is silent. Start it, or if it is lost: berth hosts forget ${database.host_id}`,
    }
  if (plan === 'no snapshot') return { operation: null, why: withoutWayBack(database) }
  try {
    const operation = await performAct(place, database, 'databases.upgrade', queueUpgrade)
    if (operation.state === 'success') return { operation, why: null }
    return {
      operation,
      why: `${unsuccessful(operation)}${hasFormerImage(operation) ? ' It has its former image again.' : ''}`,
    }
  } catch (error) {
    if (error instanceof ActRefused) return { operation: null, why: error.message }
    throw error
  }
}

const withoutWayBack = ({ id }: OperatedDatabase): string =>
  `it has no good snapshot from the last ${wayBack.snapshotHours} hours, which is needed to roll back if the engine changes its files. Its owner can create one: POST /v2/databases/${id}/snapshots. Or use --without-snapshot.`

/** Unless it continues, or could not go back: then its message says what it has. */
const hasFormerImage = (operation: OperationRow<string>): boolean =>
  !isPending(operation) && operation.code !== 'RESTORE_INTERRUPTED'
