import { type Engine, type EngineName, engineNames, shareOfAddress, spareConnections } from './engine.ts'
import { mongo } from './mongo.ts'
import { mysql } from './mysql.ts'
import { postgres } from './postgres.ts'
import { redis } from './redis.ts'

export const engines: Readonly<Record<EngineName, Engine>> = { mongo, mysql, redis, postgres }

export const isEngineName = (text: string): text is EngineName => (engineNames as readonly string[]).includes(text)

/** Most connections to the port of a database, by where they come from. */
export interface ConnectionShares {
  /** From the network of its owner's programs. */
  owner: number
  /** From addresses elsewhere together, and from one of them. */
  elsewhere: number
  ofAddress: number
  /** The latter together with those of the machine itself, and of what its own programs pass on, as the engine's proxy. */
  outside: number
}

/**
 * Those from elsewhere are in addition to `owner`: no one there is known before the login, so strangers may hold them all. They stop at
 * `elsewhere`, before `outside`; only therefore are the spare ones of the machine its own.
 */
export const connectionShares = (owner: number): ConnectionShares => ({
  owner,
  elsewhere: owner,
  ofAddress: Math.ceil(owner * shareOfAddress),
  outside: owner + spareConnections.machine,
})

/** The same of a database with this memory in MB, with what its engine accepts: at its port in all, and also at its socket. */
export function connectionsOf(
  engine: EngineName,
  memoryMb: number,
): ConnectionShares & { atPort: number; inAll: number } {
  const shares = connectionShares(engines[engine].ownerConnections(memoryMb))
  const atPort = shares.owner + shares.outside
  return { ...shares, atPort, inAll: atPort + spareConnections.socket }
}

/** A major version, or a full one. */
export const versionPattern = /^(\d{1,3})(?:\.\d{1,4}){0,2}$/

/** The major version on offer that `value` names; undefined when there is none, or it is no version. */
export function offeredVersion(engine: EngineName, value: unknown): string | undefined {
  const [, major] = (typeof value === 'string' && versionPattern.exec(value)) || []
  return engines[engine].versions.find(version => version === major)
}
