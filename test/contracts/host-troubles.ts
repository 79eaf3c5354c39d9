/** Troubles of an application at its host. `test/contracts/host-activities.ts` defines how a lane sees each. */
export type Trouble =
  /** Its program ends right after each start, because it needs more memory than it has. */
  | 'the program ends'
  /** Its program runs and never answers on its port. */
  | 'the program is deaf'
  /** The image of its containers is unavailable. */
  | 'no image'
  | 'the engine is away'
  | 'the install step fails'
  /** Steps that run until they are cancelled: the install step, and the copy of a snapshot. */
  | 'it never ends'
  /** Its disk takes no more files. */
  | 'the disk is full'
  /** The process that changes its files is killed in the middle. */
  | 'it is cut off'
  /** Its files cannot be archived. */
  | 'no archive holds the files'

/** What is left of an application at its host. */
export interface Standing {
  /** Releases that have a container, and whether it runs. */
  containers: Record<number, boolean>
  /** The release whose files are in the application's folder; null without any. */
  files: number | null
  /** Whether it has a disk. */
  disk: boolean
  /** Running install steps and copies. */
  busy: number
}
