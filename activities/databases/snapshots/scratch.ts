import type { DatabaseFacts } from '../../../db/operations/database-facts.ts'
import type { SnapshotRow } from '../../../db/snapshots/snapshots.ts'
import { pointInTimeRules } from '../../../policy/databases/point-in-time.ts'
import { databaseVolume } from '../names.ts'
import { discardVolume, type PreparationOptions } from '../preparation.ts'

const { maxWaiting, fileBytes } = pointInTimeRules

/** The volumes of a host that snapshots, restores and drills fill next to the ones that serve. */
export function scratchVolumes(host: Pick<PreparationOptions, 'engine' | 'volumes' | 'hosted' | 'diskMb'>) {
  const { volumes, hosted } = host
  return {
    /**
     * Rejects with NoSpaceLeft unless the host has room for a dump and a copy, once what an interrupted attempt has left of them is removed.
     * Nothing reserves them: what takes the last blocks of the disk takes them from the files of everyone. A snapshot takes what it took when
     * it was proved. Where that is not recorded, dump and copy are estimated by what the database uses now and by the size of the archive. A
     * copy that is `kept` may leave WAL files, which wait there until the host has stored them.
     */
    async makeRoom(
      database: DatabaseFacts,
      copies: readonly DatabaseFacts[],
      {
        snapshot,
        kept,
      }: { snapshot?: Pick<SnapshotRow, 'size' | 'restored_bytes'> | undefined; kept?: DatabaseFacts } = {},
    ): Promise<void> {
      for (const copy of copies) await discardVolume(host, copy)
      const estimate = async () =>
        2 * Math.max(await volumes.usedBytes(databaseVolume(database)), Number(snapshot?.size ?? 0))
      const waiting = kept && hosted.traitsOf(kept).archives ? maxWaiting * fileBytes : 0
      await volumes.demandRoom(Number(snapshot?.restored_bytes ?? (await estimate())) + waiting)
    },

    /** Calls `work` with an empty folder for a dump, in a volume that is removed afterwards. */
    async withDump<T>(database: DatabaseFacts, work: (folder: string) => Promise<T>): Promise<T> {
      const volume = databaseVolume(database)
      await volumes.remove(volume)
      await volumes.ensure(volume, host.diskMb(database.diskForMb), database.uid)
      try {
        return await work(`${volumes.path(volume)}/files`)
      } finally {
        await volumes.remove(volume)
      }
    },

    /** Bytes that these volumes take. */
    async bytesOf(copies: readonly DatabaseFacts[]): Promise<number> {
      let bytes = 0
      for (const copy of copies) bytes += await volumes.usedBytes(databaseVolume(copy))
      return bytes
    },
  }
}
