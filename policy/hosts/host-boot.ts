/** The stored boot of a host. */
export interface KnownBoot {
  /** Null = none yet. */
  bootId: string | null
  /** What the engine reported in that boot; null = nothing yet. */
  engine: KnownEngine | null
}

export interface KnownEngine {
  /** Changes with each start of the engine at which no container ran. */
  began: string
  /** Whether containers survive a stop of the engine. */
  liveRestore: boolean
}

/** The machine's boot in a host's boot id: an engine that took its containers down starts another boot of the host within it. */
export const machineBootOf = (bootId: string): string => bootId.split('/')[0]!

/**
 * Id of a host's current boot, given its machine's boot and the report of its engine (null = nothing yet). A restarted engine starts a new
 * boot, unless live-restore is on now and was on before: then containers that ended did so on their own.
 */
export function bootIdOf(recorded: KnownBoot, machineBootId: string, engine: KnownEngine | null): string {
  if (recorded.bootId === null || machineBootOf(recorded.bootId) !== machineBootId) return machineBootId
  if (!engine || !recorded.engine || recorded.engine.began === engine.began) return recorded.bootId
  return recorded.engine.liveRestore && engine.liveRestore ? recorded.bootId : `${machineBootId}/${engine.began}`
}
