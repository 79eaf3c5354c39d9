import type { ListedContainer } from '../../../activities/containers/port.ts'
import type { Subject } from './apart.ts'

/** `known`: the database has it. `removed`: it was deleted on purpose, or replaced. `unknown`: it is missing without a reason. */
export type Residence = 'known' | 'removed' | 'unknown'

/**
 * One kind of what lives on a host, applications or databases. Each resident has a key, which is also the id of its volume; a kind sees
 * neither containers nor volumes of another.
 */
export interface Residents<Row> {
  /** What they are called in messages: `an application`, `applications`. */
  words: { one: string; many: string }
  /** Key of the resident that a container belongs to; null for one of another kind. */
  keyOf(container: Pick<ListedContainer, 'labels'>): string | null
  /** Whether a volume is of this kind. */
  ownsVolume(volumeId: string): boolean
  keyOfRow(row: Row): string
  /** Id under which its work is serialized. */
  lockOf(key: string): string
  subjectOf(id: string): Subject
  residence(key: string): Promise<Residence>
  /** Seconds between the signal that ends a container and its kill. */
  graceSeconds: number
  /** Queues a start of one that should run, and whose volume was away; not when another operation will decide. */
  startAgain(row: Row): Promise<void>
}
