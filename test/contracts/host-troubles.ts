/** What can go wrong with an application at its host. `test/contracts/host-activities.ts` says how each looks to a lane. */
export type Trouble =
  /** Its program ends right after each start, because it needs more memory than it has. */
  | 'the program ends'
  /** Its program runs and never answers on its port. */
  | 'the program is deaf'
  /** The image that its containers are made from cannot be had. */
  | 'no image'
  | 'the engine is away'
  | 'the install step fails'
  /** What runs until it is told to end: the install step, and the copying of a snapshot. */
  | 'it never ends'
  /** Its disk takes no more files. */
  | 'the disk is full'
  /** The process that changes its files is killed in the middle. */
  | 'it is cut off'
  /** Its files are such that no archive can hold them. */
  | 'no archive holds the files'

/** What is left of an application at its host. */
export interface Standing {
  /** Releases that have a container, and whether it runs. */
  containers: Record<number, boolean>
  /** The release whose files lie in the application's folder; null without any. */
  files: number | null
  /** Whether it has a disk. */
  disk: boolean
  /** Install steps and copies that go on. */
  busy: number
}
