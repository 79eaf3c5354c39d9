/** What is on record of the boot that a host was in last. */
export interface KnownBoot {
  /** Id of that boot; null = none yet. */
  bootId: string | null
  /** What the engine told of itself in it; null = nothing yet. */
  engine: KnownEngine | null
}

export interface KnownEngine {
  /** Another text after each start of the engine at which no container ran. */
  began: string
  /** Whether containers live on when it ends. */
  liveRestore: boolean
}

/** The boot of the machine, of a boot of a host: an engine that took its containers down began another boot within it. */
export const machineBootOf = (bootId: string): string => bootId.split('/')[0]!

/**
 * Id of the boot that a host is in, when its machine is in `machineBootId` and its engine tells this of itself (null = nothing yet).
 * An engine that was started anew begins one, unless containers outlive it now and did before: then what ended has ended by itself.
 */
export function bootIdOf(known: KnownBoot, machineBootId: string, engine: KnownEngine | null): string {
  if (known.bootId === null || machineBootOf(known.bootId) !== machineBootId) return machineBootId
  if (!engine || !known.engine || known.engine.began === engine.began) return known.bootId
  return known.engine.liveRestore && engine.liveRestore ? known.bootId : `${machineBootId}/${engine.began}`
}
