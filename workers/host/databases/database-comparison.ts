import { type ContainerHost, type ListedContainer, labels } from '../../../activities/containers/port.ts'
import { databaseContainerName, databaseJobRole, databaseRole } from '../../../activities/databases/names.ts'
import { isDatabaseInUse } from '../../../db/databases/database-lookups.ts'
import { type HostDatabase, listDatabasesOfHost, loadDatabase } from '../../../db/databases/databases.ts'
import { bringBackStrays, type StrayOptions, sweepStrays } from '../host-strays.ts'
import { apart, settleEach } from '../watch/apart.ts'
import { containersOf } from '../watch/containers-of.ts'
import { databaseOf, databaseResidents, graceSeconds, type ResidentsOptions } from './database-residents.ts'
import { type SettlementOptions, settleDatabase } from './database-settlement.ts'

export interface DatabaseComparisonOptions extends StrayOptions, SettlementOptions, Pick<ResidentsOptions, 'waits'> {
  engine: ContainerHost
  hostId: string
  /** Databases that failed in the previous round: another failure of theirs says nothing about the engine. */
  failing: Set<string>
  /** Receives the containers of these databases, or of all, in every comparison. */
  onContainers?(present: readonly ListedContainer[], ids?: ReadonlySet<string>): void
}

/** Compares all databases of a host, and deals with strays; resolves to those that the next round must check again. */
export async function compareDatabases(options: DatabaseComparisonOptions): Promise<Set<string>> {
  const { db, hostId } = options
  const containers = await allContainers(options)
  options.onContainers?.(containers)
  const { rows, aside, unsettled } = await compare(options, containers, () => listDatabasesOfHost(db, hostId))
  const residents = databaseResidents(options)
  const keys = (of: readonly HostDatabase[]) => new Set(of.map(residents.keyOfRow))
  const rowKeys = keys(rows)
  await sweepStrays(options, residents, { containers, rowKeys, aside: keys(rows.filter(({ id }) => aside.has(id))) })
  for (const id of options.due.keys()) if (!rows.some(row => row.id === id)) options.due.delete(id)
  return unsettled
}

/** Compares some databases. Strays are left to the full comparison; `hasStrays` reports containers without a row. */
export async function compareSomeDatabases(
  options: DatabaseComparisonOptions,
  ids: ReadonlySet<string>,
): Promise<{ unsettled: Set<string>; hasStrays: boolean }> {
  const { db, engine, hostId } = options
  if (ids.size === 0) return { unsettled: new Set(), hasStrays: false }
  const listAll = () => allContainers(options)
  const containers = await containersOf({ engine, hostId, label: labels.database, listAll }, ids)
  options.onContainers?.(containers, ids)
  const { rows, unsettled } = await compare(options, containers, () => listDatabasesOfHost(db, hostId, [...ids]))
  const rowIds = new Set(rows.map(({ id }) => id))
  // One that was deleted is not started again.
  for (const id of ids) if (!rowIds.has(id)) options.due.delete(id)
  return { unsettled, hasStrays: containers.some(container => !rowIds.has(databaseOf(container))) }
}

/** By role: a host has many more applications, which a list of everything would bring. */
async function allContainers({ engine, hostId }: DatabaseComparisonOptions): Promise<ListedContainer[]> {
  const lists = [databaseRole, databaseJobRole].map(role => engine.list({ [labels.host]: hostId, [labels.role]: role }))
  return (await Promise.all(lists)).flat()
}

/** `containers` were listed before the rows are read. */
async function compare(
  options: DatabaseComparisonOptions,
  containers: readonly ListedContainer[],
  read: () => Promise<HostDatabase[]>,
): Promise<{ rows: HostDatabase[]; aside: ReadonlySet<string>; unsettled: Set<string> }> {
  const { log, failing } = options
  const rows = await read()
  const residents = databaseResidents(options)
  const aside = await bringBackStrays(options, residents, containers, rows)
  // What is not there is not started: a restart that is due would make every round start immediately.
  for (const id of aside) options.due.delete(id)
  const byName = new Map(containers.map(one => [one.name, one]))
  const each = { log, failing, subjectOf: residents.subjectOf, words: residents.words.many }
  const settle = (row: HostDatabase) => settleDatabase(options, row, byName.get(databaseContainerName(row)))
  const here = rows.filter(({ id }) => !aside.has(id))
  const unsettled = await settleEach(each, here, settle)
  await removeJobs(options, containers, rows)
  await endFormer(options, containers, rows)
  return { rows, aside, unsettled: new Set([...aside, ...unsettled]) }
}

/** Removes containers that an operation has left which made a data folder; by their ids, as another one may have got the name. */
async function removeJobs(
  { db, engine, log, locks }: DatabaseComparisonOptions,
  containers: readonly ListedContainer[],
  rows: readonly HostDatabase[],
): Promise<void> {
  const rowIds = new Set(rows.map(({ id }) => id))
  for (const job of containers.filter(one => one.labels[labels.role] === databaseJobRole)) {
    const databaseId = databaseOf(job)
    if (!rowIds.has(databaseId) || locks.busy(databaseId)) continue
    await apart(log, { databaseId }, async () => {
      if (await isDatabaseInUse(db, databaseId)) return
      log.warn({ databaseId, container: job.name }, 'watch: removing a container that no operation waits for')
      await locks(databaseId, () => engine.remove(job.id))
    })
  }
}

/**
 * Ends engines on a volume that a restore has replaced, or an undo: they would answer at the port of the one that serves. A restore that
 * found its database down, by the row, has ended none.
 */
async function endFormer(
  { db, engine, log, locks }: DatabaseComparisonOptions,
  containers: readonly ListedContainer[],
  rows: readonly HostDatabase[],
): Promise<void> {
  const serving = new Map(rows.map(row => [row.id, databaseContainerName(row)]))
  const isFormer = async (databaseId: string, name: string) => {
    const generation = (await loadDatabase(db, databaseId))?.retired_generation ?? null
    return generation !== null && name === databaseContainerName({ id: databaseId, generation })
  }
  for (const container of containers.filter(one => one.running && one.labels[labels.role] === databaseRole)) {
    const { id, name } = container
    const databaseId = databaseOf(container)
    if ((serving.get(databaseId) ?? name) === name || locks.busy(databaseId)) continue
    await apart(log, { databaseId }, async () => {
      if (!(await isFormer(databaseId, name)) || (await isDatabaseInUse(db, databaseId))) return
      await locks(databaseId, async () => {
        if (!(await isFormer(databaseId, name))) return
        log.warn({ databaseId, container: name }, 'watch: ending an engine on a volume that no longer serves')
        await engine.stop(id, graceSeconds)
      })
    })
  }
}
