/** The disk with the files of an application or database is missing at its host. */
export class VolumeLost extends Error {
  override name = 'VolumeLost'
  constructor(volumeId: string, options?: ErrorOptions) {
    super(
      `The files of volume ${volumeId} are no longer at its host. Bring its disk back, or restore a snapshot.`,
      options,
    )
  }
}

/** `lost`: it is missing at its host. `read-only`: the kernel allows no writes until it is mounted again. */
export type VolumeFault = 'lost' | 'read-only' | 'not mounted'

/** `before`: it must exist, because it has files of a deploy: replacing it with an empty one would be a silent loss. */
type Created = 'now' | 'before'

/**
 * The disk space of one application, or of one volume of a database, on one host: a folder that is its own file system with a fixed size where the host supports it
 * (a sparse file, loop-mounted). Layout inside: `files/` is mounted at /app, `releases/<n>/` contains what a release
 * brought and installed, `draft` and `trash/` contain files on their way into `files/` and out of it.
 */
export interface Volumes {
  /** 'enforced' when each application has its own file system, 'checked' when sizes are only watched. */
  readonly quota: 'enforced' | 'checked'
  /** Root folder of the volume; always the same for the same id. */
  path(volumeId: string): string
  /**
   * Creates or adopts a volume, also one that was set aside; mounted on return. `uid` owns `files/`. Rejects with
   * NoSpaceLeft (lib/folders/no-space-left.ts), and with VolumeLost when one that was `created` before is missing. A repair, and where
   * the kernel requires it growth, is left for a later call while a program uses the volume, in a container too.
   */
  ensure(volumeId: string, sizeMb: number, uid: number, created?: Created): Promise<void>
  /** Whether a volume that exists is to be repaired or to grow once no program uses it, by the next `ensure`. */
  waits(volumeId: string): Promise<boolean>
  /** The faults of these volumes; healthy ones are left out. */
  faults(volumeIds: readonly string[]): Promise<Map<string, VolumeFault>>
  /** Unmounts it and moves it where `list` does not see it, until it is brought back or removed; missing is success. */
  setAside(volumeId: string): Promise<void>
  /** Undoes `setAside`; mounted on return. Does nothing when it was not set aside. */
  bringBack(volumeId: string): Promise<void>
  /** Unmounts and deletes everything, also what was set aside; missing is success. */
  remove(volumeId: string): Promise<void>
  /** Resolves once everything written so far would survive a power cut. */
  flush(volumeId: string): Promise<void>
  /** Mounts all volumes again after a reboot. */
  remountAll(): Promise<void>
  /** Unmounts everything that no container holds, so that the data folder can be moved or removed; the data stays. */
  unmountAll(): Promise<void>
  /** The block device of a mounted volume that has its own, as `/dev/<name>`; otherwise null. */
  device(volumeId: string): Promise<string | null>
  /** Bytes used by the application's files and releases. */
  usedBytes(volumeId: string): Promise<number>
  /** Bytes of the host's disk that all volumes have allocated, without those that are set aside: nothing is promised for these. */
  allocatedBytes(): Promise<number>
  /** Rejects with NoSpaceLeft unless the host's disk has room for `bytes` more, and a reserve: volumes are as large as what is in them. */
  demandRoom(bytes: number): Promise<void>
  list(): Promise<string[]>
}
