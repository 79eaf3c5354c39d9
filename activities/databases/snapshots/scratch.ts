import { readFile } from 'node:fs/promises'
import type { DatabaseFacts } from '../../../db/operations/database-facts.ts'
import type { SnapshotRow } from '../../../db/snapshots/snapshots.ts'
import { KiB, MiB } from '../../../lib/bytes.ts'
import { pointInTimeRules } from '../../../policy/databases/point-in-time.ts'
import { jobMemoryOf } from '../container.ts'
import { type DumpFolder, diskOf } from '../dump-jobs.ts'
import { databaseJobName, databaseVolume } from '../names.ts'
import { discardVolume, type PreparationOptions } from '../preparation.ts'

const { maxWaiting, fileBytes } = pointInTimeRules

/** How long a measurement stays valid that a copy does not fit. */
const measureAgainMs = 3000

/** The source and the purpose of a copy. */
export interface CopyTerms {
  snapshot?: Pick<SnapshotRow, 'size' | 'restored_bytes'> | undefined
  /** The copy that serves afterwards, which may leave WAL files that wait there until the host has stored them. */
  successor?: DatabaseFacts | undefined
}

/** Bytes that one operation needs in all, the volumes that fill its room, and the containers whose engines use its memory. */
interface Claim {
  disk: number
  memory: number
  volumes: readonly string[]
  engines: readonly string[]
}

const nothing: Claim = { disk: 0, memory: 0, volumes: [], engines: [] }

/**
 * The volumes of a host that snapshots, restores and drills fill next to the ones that serve. Create it once per process: what copies at
 * the same time counts with what it still needs, from before it begins until it has no slot any more, between its attempts too.
 */
export function scratchVolumes(
  host: Pick<PreparationOptions, 'engine' | 'volumes' | 'hosted' | 'diskMb' | 'disk'>,
  availableMemory: () => Promise<number> = availableBytes,
) {
  const { volumes, hosted, engine } = host
  /** By operation. */
  const claims = new Map<string, Claim>()

  /** Bytes that a dump and a copy take, if `snapshot` has none recorded by an estimate, and those that may wait in its successor. */
  async function bytesFor(database: DatabaseFacts, { snapshot, successor }: CopyTerms): Promise<number> {
    const estimate = async () =>
      2 * Math.max(await volumes.usedBytes(databaseVolume(database)), Number(snapshot?.size ?? 0))
    const waiting = successor && hosted.traitsOf(successor).archives ? maxWaiting * fileBytes : 0
    return Number(snapshot?.restored_bytes ?? (await estimate())) + waiting
  }

  const usedBy = async (names: readonly string[]): Promise<number> => {
    let bytes = 0
    for (const name of names) bytes += await volumes.usedBytes(name)
    return bytes
  }

  const residentIn = async (names: readonly string[]): Promise<number> => {
    let bytes = 0
    for (const name of names) bytes += (await engine.stats(name))?.residentBytes ?? 0
    return bytes
  }

  /** Bytes that other operations have claimed and do not use yet. */
  async function owedToOthers(operationId: string, what: 'disk' | 'memory'): Promise<number> {
    let bytes = 0
    for (const [id, claim] of claims) {
      if (id === operationId) continue
      const used = what === 'disk' ? usedBy(claim.volumes) : residentIn(claim.engines)
      bytes += Math.max(0, claim[what] - (await used))
    }
    return bytes
  }

  const claimOf = (database: DatabaseFacts, disk: number, copies: readonly DatabaseFacts[] = []): Claim => ({
    disk,
    memory: jobMemoryOf(database) * MiB,
    volumes: copies.map(databaseVolume),
    engines: [database, ...copies].map(databaseJobName),
  })

  return {
    /**
     * For an operation that is about to begin alongside others, which have slots: each call claims room for it, and memory for its engine, and
     * resolves to what gives them back, or to null when the host does not have both now. What begins alone is not refused here: it would wait
     * for nothing.
     */
    reservation(
      operationId: string,
      database: DatabaseFacts,
      terms: CopyTerms,
    ): (alongside: readonly string[]) => Promise<(() => void) | null> {
      let bytes: number | undefined
      let refusedUntil = 0
      return async alongside => {
        if (performance.now() < refusedUntil) return null
        for (const id of claims.keys()) if (!alongside.includes(id)) claims.delete(id)
        const others = alongside.filter(id => id !== operationId)
        // It began before this process did, or could not be measured: what it needs is not known before it goes on.
        if (others.some(id => !claims.has(id))) return null
        bytes ??= await bytesFor(database, terms)
        const own = claimOf(database, bytes)
        if (others.length > 0) {
          const hasMemory = (await availableMemory()) >= own.memory + (await owedToOthers(operationId, 'memory'))
          const hasRoom = await volumes.demandRoom(bytes + (await owedToOthers(operationId, 'disk'))).then(
            () => true,
            () => false,
          )
          if (!hasMemory || !hasRoom) {
            // Where volumes are folders, each measurement reads all of them.
            refusedUntil = performance.now() + measureAgainMs
            return null
          }
        }
        // Only now: what is not given a slot may not make the work of others fail.
        claims.set(operationId, own)
        return () => {
          if (claims.get(operationId) === own) claims.delete(operationId)
        }
      }
    },

    /**
     * Rejects with NoSpaceLeft unless the host has room for a dump and a copy, once what an interrupted attempt has left of them is removed, and
     * for what others still need. Nothing else reserves it: what takes the last blocks of the disk takes them from the files of everyone. A
     * snapshot takes what it took when it was proved. Where that is not recorded, dump and copy are estimated by what the database uses now and
     * by the size of the archive. Counts for others until the operation has no slot any more.
     */
    async makeRoom(
      operationId: string,
      database: DatabaseFacts,
      copies: readonly DatabaseFacts[],
      terms: CopyTerms = {},
    ): Promise<void> {
      for (const copy of copies) await discardVolume(host, copy)
      const bytes = await bytesFor(database, terms)
      claims.set(operationId, claimOf(database, bytes, copies))
      await volumes.demandRoom(bytes + (await owedToOthers(operationId, 'disk'))).catch(error => {
        claims.delete(operationId) // it ends here: what it would have needed is not held against others
        throw error
      })
    },

    /** The work has ended well: what it has not filled is there for others again. One that fails may be tried again, and keeps its room. */
    leaveRoom(operationId: string): void {
      claims.set(operationId, nothing)
    },

    /** Calls `work` with an empty folder for a dump, in a volume that is removed afterwards. */
    async withDump<T>(database: DatabaseFacts, work: (dump: DumpFolder) => Promise<T>): Promise<T> {
      const volume = databaseVolume(database)
      await volumes.remove(volume)
      await volumes.ensure(volume, host.diskMb(database.diskForMb), database.uid)
      try {
        return await work({ folder: `${volumes.path(volume)}/files`, disk: await diskOf(host, database) })
      } finally {
        await volumes.remove(volume)
      }
    },

    /** Bytes that these volumes take. */
    bytesOf: (copies: readonly DatabaseFacts[]): Promise<number> => usedBy(copies.map(databaseVolume)),
  }
}

/** Memory that this machine could give to programs now, in bytes, by its kernel; infinite where that does not say. */
async function availableBytes(): Promise<number> {
  const text = await readFile('/proc/meminfo', 'utf8').catch(() => '')
  const [, kiB] = /^MemAvailable:\s+(\d+) kB$/m.exec(text) ?? []
  return kiB === undefined ? Number.POSITIVE_INFINITY : Number(kiB) * KiB
}
