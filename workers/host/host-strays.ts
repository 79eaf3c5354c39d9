import type { Logger } from 'pino'
import { type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import { stopGraceSeconds } from '../../activities/containers/spec.ts'
import { removeTenant } from '../../activities/containers/tenant.ts'
import { blankBook, type StrayBook } from '../../activities/hosts/stray-book.ts'
import type { AppLocks } from '../../activities/steps/app-locks.ts'
import type { Volumes } from '../../activities/volumes/port.ts'
import * as apps from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import * as operations from '../../db/operations/operations.ts'
import { currentNotes, decideStrays, type StrayNote, strayTerms } from '../../policy/hosts/strays.ts'
import { apart } from './apart.ts'

export interface StrayOptions {
  db: Db
  engine: ContainerHost
  volumes: Volumes
  locks: AppLocks
  hostId: string
  log: Logger
  /** Where the host records what it has quarantined; without it nothing quarantined is ever removed. */
  strays?: StrayBook
  now?: () => number
}

/**
 * Restores what was quarantined and is known again; resolves to the applications for which that failed. Call it before a round acts on
 * any row, and then skip those: the end of a quarantined container is no exit of its program.
 */
export async function bringBackStrays(
  { db, volumes, log, strays = blankBook }: StrayOptions,
  containers: ListedContainer[],
  rows: apps.HostApp[],
): Promise<ReadonlySet<string>> {
  const notes: Record<string, StrayNote> = { ...(await strays.read()) }
  const failed = new Set<string>()
  for (const app of rows.filter(row => notes[row.id])) {
    const done = await apart(log, app.id, async () => {
      await volumes.bringBack(app.id)
      const runs = containers.some(container => container.running && container.labels[labels.app] === app.id)
      const wanted = app.status === 'running' && app.desired_state === 'running'
      if (wanted && !runs && !(await operations.isBusy(db, app.id)))
        await operations.enqueueOperation(db, {
          targetId: app.id,
          kind: 'start',
          ownerId: app.owner_id,
          actor: 'host-watch',
        })
      log.warn({ appId: app.id }, 'strays: a quarantined application is known again and was restored')
      delete notes[app.id]
      await strays.write(notes)
    })
    if (!done) failed.add(app.id)
  }
  return failed
}

/**
 * Removes what a deleted application has left, and quarantines what the database does not know: containers are stopped, volumes
 * renamed, and both removed only after days (policy/hosts/strays.ts). `containers` were listed before `rows` were read; the applications
 * in `aside` are known again and not restored yet.
 */
export async function sweepStrays(
  options: StrayOptions,
  containers: ListedContainer[],
  rows: apps.HostApp[],
  aside: ReadonlySet<string>,
): Promise<void> {
  const { db, volumes, log, strays = blankBook, now = Date.now } = options
  const notes: Record<string, StrayNote> = { ...(await strays.read()) }
  const present = await volumes.list()
  const ids = new Set([...containers.flatMap(container => container.labels[labels.app] ?? []), ...present])
  for (const [id, note] of Object.entries(notes)) if (note.removed === undefined) ids.add(id)

  const sides = { known: [] as string[], gone: [] as string[], unknown: [] as string[] }
  const applications = new Set(rows.map(({ id }) => id))
  for (const id of ids) sides[await sideOf(db, id, applications)].push(id)
  const {
    aside: unheard,
    remove,
    wrongDatabase,
  } = decideStrays(sides.unknown, sides.known.length + sides.gone.length, notes, now())
  if (wrongDatabase)
    log.error(
      { applications: ids.size },
      'strays: the database knows none of the applications of this host, so it is probably the wrong one, and nothing is touched. Start with the right DATABASE_URL, or restore the database (docs/decisions/one-installation.md)',
    )

  for (const id of unheard) notes[id] = { since: now() }
  // Recorded before it is touched: only what is recorded is restored.
  if (unheard.length > 0) await strays.write(notes)
  if (!wrongDatabase)
    for (const id of sides.unknown.filter(id => notes[id]))
      await apart(log, id, () => setAside(options, id, containers, present))

  const removed: string[] = []
  for (const id of [...sides.gone, ...remove]) {
    if (!(await apart(log, id, () => removeThings(options, id, containers, present)))) continue
    removed.push(id)
    if (notes[id]) notes[id].removed = now()
  }
  await removeTenants(options, containers, removed)
  const left = currentNotes(notes, [...sides.unknown, ...aside], now())
  if (remove.length > 0 || Object.keys(left).length !== Object.keys(notes).length) await strays.write(left)
}

/** Whether the application exists, was deleted on purpose, or is missing without a reason. */
async function sideOf(db: Db, id: string, applications: ReadonlySet<string>): Promise<'known' | 'gone' | 'unknown'> {
  if (applications.has(id) || (await apps.loadApp(db, id))) return 'known'
  return (await operations.wasRemoved(db, id)) ? 'gone' : 'unknown'
}

/** Tells operators how to get an application back. */
const recoveryHint = `It is removed after ${strayTerms.keptDays} days, and restored if the database knows it again before that (docs/decisions/one-installation.md).`

async function setAside(
  { engine, volumes, locks, log }: StrayOptions,
  id: string,
  containers: ListedContainer[],
  present: string[],
): Promise<void> {
  for (const { name, running } of containers.filter(of(id))) {
    if (!running) continue
    log.warn({ container: name }, `strays: stopping a container that the database does not know. ${recoveryHint}`)
    await locks(id, () => engine.stop(name, stopGraceSeconds))
  }
  if (!present.includes(id)) return
  log.warn({ appId: id }, `strays: quarantining a volume that the database does not know. ${recoveryHint}`)
  await locks(id, () => volumes.setAside(id))
}

async function removeThings(
  { engine, volumes, locks, log }: StrayOptions,
  id: string,
  containers: ListedContainer[],
  present: string[],
): Promise<void> {
  const names = containers.filter(of(id)).map(({ name }) => name)
  log.warn(
    { appId: id, containers: names, volume: present.includes(id) },
    'strays: removing containers and volume without an application',
  )
  for (const name of names) await locks(id, () => engine.remove(name))
  await locks(id, () => volumes.remove(id))
}

async function removeTenants(
  { engine, hostId }: StrayOptions,
  containers: ListedContainer[],
  removed: string[],
): Promise<void> {
  const left = (container: ListedContainer) => removed.includes(container.labels[labels.app] ?? '')
  const kept = new Set(containers.filter(container => !left(container)).map(({ labels: of }) => of[labels.owner]))
  const owners = new Set(containers.filter(left).flatMap(({ labels: of }) => of[labels.owner] ?? []))
  for (const ownerId of owners) if (!kept.has(ownerId)) await removeTenant(engine, ownerId, hostId)
}

const of = (id: string) => (container: ListedContainer) => container.labels[labels.app] === id
