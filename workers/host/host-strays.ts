import type { Logger } from 'pino'
import { type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import { removeTenant } from '../../activities/containers/tenant.ts'
import { blankBook, type StrayBook } from '../../activities/hosts/stray-book.ts'
import type { AppLocks } from '../../activities/steps/app-locks.ts'
import type { Volumes } from '../../activities/volumes/port.ts'
import { currentNotes, decideStrays, type StrayNote, strayTerms } from '../../policy/hosts/strays.ts'
import { apart } from './watch/apart.ts'
import type { Residence, Residents } from './watch/residents.ts'

export interface StrayOptions {
  engine: ContainerHost
  volumes: Volumes
  locks: AppLocks
  hostId: string
  log: Logger
  /** Where the host records what it has quarantined; without it nothing quarantined is ever removed. */
  strays?: StrayBook | undefined
  now?: (() => number) | undefined
}

/**
 * Restores what was quarantined and is known again; resolves to the ids of the rows for which that failed. Call it before a round acts on
 * any row, and then skip those: the end of a quarantined container is no exit of its program.
 */
export async function bringBackStrays<Row extends { id: string }>(
  { volumes, log, strays = blankBook }: StrayOptions,
  residents: Residents<Row>,
  containers: readonly ListedContainer[],
  rows: readonly Row[],
): Promise<ReadonlySet<string>> {
  const { keyOf, keyOfRow, startAgain, subjectOf, words } = residents
  const notes: Record<string, StrayNote> = { ...(await strays.read()) }
  const failed = new Set<string>()
  for (const row of rows.filter(one => notes[keyOfRow(one)])) {
    const key = keyOfRow(row)
    const done = await apart(log, subjectOf(row.id), async () => {
      await volumes.bringBack(key)
      if (!containers.some(container => container.running && keyOf(container) === key)) await startAgain(row)
      log.warn(subjectOf(row.id), `strays: ${words.one} that was quarantined is known again and was restored`)
      delete notes[key]
      await strays.write(notes)
    })
    if (!done) failed.add(row.id)
  }
  return failed
}

/** What a round has found, in this order: containers were listed before rows were read. */
export interface Seen {
  /** Those of this kind, at least. */
  containers: readonly ListedContainer[]
  /** Keys of the rows. */
  rowKeys: ReadonlySet<string>
  /** Keys of those that are known again and not restored yet. */
  aside: ReadonlySet<string>
}

/**
 * Removes what a deleted application or database has left, and quarantines what the database does not know: containers are stopped, volumes
 * renamed, and both removed only after days (policy/hosts/strays.ts).
 */
export async function sweepStrays<Row>(
  options: StrayOptions,
  residents: Residents<Row>,
  { containers, rowKeys, aside }: Seen,
): Promise<void> {
  const { volumes, log, strays = blankBook, now = Date.now } = options
  const { keyOf, ownsVolume, lockOf, subjectOf, words } = residents
  const notes: Record<string, StrayNote> = { ...(await strays.read()) }
  const own: Own[] = containers.flatMap(container => ({ container, key: keyOf(container) })).filter(isOwn)
  const present = new Set((await volumes.list()).filter(ownsVolume))
  const keys = new Set([...own.map(({ key }) => key), ...present])
  for (const [key, note] of Object.entries(notes)) if (note.removed === undefined && ownsVolume(key)) keys.add(key)

  const sides: Record<Residence, string[]> = { known: [], removed: [], unknown: [] }
  for (const key of keys) sides[rowKeys.has(key) ? 'known' : await residents.residence(key)].push(key)
  const decision = decideStrays(sides.unknown, sides.known.length + sides.removed.length, notes, now())
  if (decision.wrongDatabase)
    log.error(
      { count: keys.size },
      `strays: the database knows none of the ${words.many} of this host, so it is probably the wrong one, and nothing is touched. Start with the right DATABASE_URL, or restore the database (docs/decisions/one-installation.md)`,
    )

  for (const key of decision.aside) notes[key] = { since: now() }
  // Recorded before it is touched: only what is recorded is restored.
  if (decision.aside.length > 0) await strays.write(notes)
  const thingsOf = (key: string): Things => ({
    key,
    containers: own.filter(one => one.key === key).map(({ container }) => container),
    hasVolume: present.has(key),
  })
  if (!decision.wrongDatabase)
    for (const key of sides.unknown.filter(one => notes[one]))
      await apart(log, subjectOf(lockOf(key)), () => setAside(options, residents, thingsOf(key)))

  const removed: ListedContainer[] = []
  for (const key of [...sides.removed, ...decision.remove]) {
    const things = thingsOf(key)
    if (!(await apart(log, subjectOf(lockOf(key)), () => removeThings(options, residents, things)))) continue
    removed.push(...things.containers)
    if (notes[key]) notes[key].removed = now()
  }
  await removeTenants(options, removed)
  const left = currentNotes(notes, [...sides.unknown, ...aside], now())
  if (decision.remove.length > 0 || Object.keys(left).length !== Object.keys(notes).length) await strays.write(left)
}

interface Own {
  container: ListedContainer
  key: string
}

const isOwn = (one: { container: ListedContainer; key: string | null }): one is Own => one.key !== null

/** What one key has on the host. */
interface Things {
  key: string
  containers: readonly ListedContainer[]
  hasVolume: boolean
}

/** Tells operators how to get it back. */
const recoveryHint = `It is removed after ${strayTerms.keptDays} days, and restored if the database knows it again before that (docs/decisions/one-installation.md).`

async function setAside<Row>(
  { engine, volumes, locks, log }: StrayOptions,
  { lockOf, subjectOf, graceSeconds }: Residents<Row>,
  { key, containers, hasVolume }: Things,
): Promise<void> {
  const id = lockOf(key)
  for (const { name, running } of containers) {
    if (!running) continue
    log.warn({ container: name }, `strays: stopping a container that the database does not know. ${recoveryHint}`)
    await locks(id, () => engine.stop(name, graceSeconds))
  }
  if (!hasVolume) return
  log.warn(
    { ...subjectOf(id), volume: key },
    `strays: quarantining a volume that the database does not know. ${recoveryHint}`,
  )
  await locks(id, () => volumes.setAside(key))
}

async function removeThings<Row>(
  { engine, volumes, locks, log }: StrayOptions,
  { lockOf, subjectOf, residence, words }: Residents<Row>,
  { key, containers, hasVolume }: Things,
): Promise<void> {
  const id = lockOf(key)
  const names = containers.map(({ name }) => name)
  log.warn(
    { ...subjectOf(id), containers: names, volume: hasVolume },
    `strays: removing containers and volume without ${words.one}`,
  )
  // Read again under the lock: an operation may have taken it into use since the round began.
  const unlessKnown = async (remove: () => Promise<void>) => {
    if ((await residence(key)) === 'known') throw new Error(`${key} is known again.`)
    await remove()
  }
  for (const name of names) await locks(id, () => unlessKnown(() => engine.remove(name)))
  await locks(id, () => unlessKnown(() => volumes.remove(key)))
}

/** Applications and databases of an owner share a network, and the control group of their containers. */
async function removeTenants({ engine, hostId }: StrayOptions, removed: readonly ListedContainer[]): Promise<void> {
  for (const ownerId of new Set(removed.flatMap(({ labels: of }) => of[labels.owner] ?? []))) {
    const others = await engine.list({ [labels.host]: hostId, [labels.owner]: ownerId })
    if (others.length === 0) await removeTenant(engine, ownerId, hostId)
  }
}
