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
A database keeps the image that it was first started with, whatever is loaded or pulled under the same name later. An upgrade takes the
image that its host has under that name now, by one stop and one start, and is over once its owner can log in; otherwise it continues
with the former image. Versions stay: a name has one major version. An engine may change its files for a newer minor version so that the
former one cannot read them: a good snapshot of the last 24 hours is then the way back, and demanded. What is stopped stays stopped; the image
is tried where no client reaches it.
With --all one after the other, host by host, until the first that fails. If the command is interrupted, run it again.`

export function upgradeCommand(databases: Command): void {
  databases
    .command('upgrade')
    .description('continue with the image that the host has under the name of its image now: the minor version')
    .argument('[id]', idWords)
    .option('--all', 'every database, one after the other, until the first failure')
    .option('--without-snapshot', 'also what has no snapshot of the last 24 hours, and so no way back')
    .option('--dry-run', 'only show which image each has, and which one it would get')
    .option('--yes', 'do not ask for confirmation')
    .option('--wait <seconds>', 'maximum time to wait for each', '600')
    .option('--json', 'as a JSON array')
    .addHelpText('after', help)
    .action(upgrade)
}

async function upgrade(start: string | undefined, options: UpgradeOptions): Promise<void> {
  const { all, withoutSnapshot, dryRun, yes, wait, json } = options
  if ((start === undefined) === !all) throw new Error('Give one database, or --all.')
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
  current: 'has the present image',
  'not recorded': 'unknown: not started since images are recorded; an upgrade compares',
  'host silent': 'HOST IS SILENT: cannot be upgraded now',
  'no snapshot': 'HAS NO SNAPSHOT OF THE LAST 24 HOURS: is refused',
  'no image': 'ITS HOST HAS NO SUCH IMAGE, or has not looked yet',
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
    `${what} continues with the present image of its host, if it has another one. It is then away for some seconds, and its connections end.`,
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
  if (!json && candidates.length !== 1) console.log(`${done} databases have the present image of their host.`)
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
  from === to ? `has the present image already, ${shortId(to)}` : `upgraded from ${shortId(from)} to ${shortId(to)}`

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
      why: `${unsuccessful(operation)}${hasFormerImage(operation) ? ' It has its former image.' : ''}`,
    }
  } catch (error) {
    if (error instanceof ActRefused) return { operation: null, why: error.message }
    throw error
  }
}

const withoutWayBack = ({ id }: OperatedDatabase): string =>
  `it has no good snapshot of the last ${wayBack.snapshotHours} hours, which is the way back when the engine changes its files. Its owner takes one: POST /v2/databases/${id}/snapshots. Or give --without-snapshot.`

/** Unless it continues, or could not go back: then its message says what it has. */
const hasFormerImage = (operation: OperationRow<string>): boolean =>
  !isPending(operation) && operation.code !== 'RESTORE_INTERRUPTED'
