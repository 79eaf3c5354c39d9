import { type Engine, type EngineName, engineNames, shareOfAddress, spareConnections } from './engine.ts'
import { mongo } from './mongo.ts'
import { mysql } from './mysql.ts'
import { postgres } from './postgres.ts'
import { redis } from './redis.ts'

export const engines: Readonly<Record<EngineName, Engine>> = { mongo, mysql, redis, postgres }

export const isEngineName = (text: string): text is EngineName => (engineNames as readonly string[]).includes(text)

/** Most connections to the port of a database whose owner's programs may have `own`, by where they come from. */
export interface ConnectionPlaces {
  /** From the network of its owner's programs. */
  own: number
  /** From addresses elsewhere together, and from one of them. */
  elsewhere: number
  ofAddress: number
  /** The latter together with those of the machine, which passes on those of clients too where the engine runs its own proxy. */
  outside: number
}

/** Those from elsewhere are in addition: no one there is known before the login, so strangers may hold them all. */
export const connectionPlaces = (own: number): ConnectionPlaces => ({
  own,
  elsewhere: own,
  ofAddress: Math.ceil(own * shareOfAddress),
  outside: own + spareConnections.machine,
})

/** The same of a database with this memory in MB, with what its engine accepts: at its port in all, and also at its socket. */
export function connectionsOf(
  engine: EngineName,
  memoryMb: number,
): ConnectionPlaces & { atPort: number; inAll: number } {
  const places = connectionPlaces(engines[engine].maxConnections(memoryMb))
  const atPort = places.own + places.outside
  return { ...places, atPort, inAll: atPort + spareConnections.socket }
}

/** A major version, or a full one. */
export const versionPattern = /^(\d{1,3})(?:\.\d{1,4}){0,2}$/

/** The major version on offer that `value` names; undefined when there is none, or it is no version. */
export function offeredVersion(engine: EngineName, value: unknown): string | undefined {
  const [, major] = (typeof value === 'string' && versionPattern.exec(value)) || []
  return engines[engine].versions.find(version => version === major)
}
