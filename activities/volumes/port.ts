/** A disk that should hold an application's files is not at its host. */
export class VolumeLost extends Error {
  override name = 'VolumeLost'
  constructor(appId: string, options?: ErrorOptions) {
    super(
      `The files of application ${appId} are not at its host any more. Bring its disk back, or restore a snapshot.`,
      options,
    )
  }
}

/** `lost`: it is not at its host. `read-only`: the kernel lets nothing be written until it is mounted anew. */
export type VolumeFault = 'lost' | 'read-only' | 'not mounted'

/** `before`: it holds files that a deploy has brought, so an empty one in its place would be a loss that nobody is told of. */
export type Made = 'now' | 'before'

/**
 * The disk space of one application on one host: a folder that, where the host can, is a file system of its own with a
 * fixed size (a sparse file, loop-mounted). Layout inside: `files/` is mounted at /app, `releases/<n>/` holds what a release
 * brought and installed, `draft` and `trash/` hold what is on its way into the files and out of them.
 */
export interface Volumes {
  /** 'enforced' when each application has a file system of its own, 'checked' when sizes are only watched. */
  readonly quota: 'enforced' | 'checked'
  /** Root folder of the application; the same for the same id, always. */
  path(appId: string): string
  /**
   * Creates or adopts, also what was set aside; mounted on return. `uid` owns `files/`.
   * Rejects with NoSpaceLeft (activities/containers/port.ts), and with VolumeLost when one that was `made` before is not there.
   */
  ensure(appId: string, sizeMb: number, uid: number, made?: Made): Promise<void>
  /** Which of these are not as they should be now; what is well is left out. */
  faults(appIds: readonly string[]): Promise<Map<string, VolumeFault>>
  /** Unmounts it and puts it where `list` does not see it, whole, until it is brought back or removed; missing is success. */
  setAside(appId: string): Promise<void>
  /** Mounted on return when it was set aside; otherwise nothing is done. */
  bringBack(appId: string): Promise<void>
  /** Unmounts and deletes everything, also what was set aside; missing is success. */
  remove(appId: string): Promise<void>
  /** Resolves once everything that was written into it so far outlasts a power cut. */
  flush(appId: string): Promise<void>
  /** Mounts again what a reboot unmounted. */
  remountAll(): Promise<void>
  /** Unmounts everything that no container holds, so that the data folder can be moved or removed; the data stays. */
  unmountAll(): Promise<void>
  /** The block device of a volume that is mounted and has one of its own, as `/dev/<name>`; else null. */
  device(appId: string): Promise<string | null>
  /** Bytes used by the application's files and releases. */
  usedBytes(appId: string): Promise<number>
  list(): Promise<string[]>
}
