import { type Engine, type EngineName, engineNames, spareConnections } from './engine.ts'
import { mongo } from './mongo.ts'
import { mysql } from './mysql.ts'
import { postgres } from './postgres.ts'
import { redis } from './redis.ts'

export const engines: Readonly<Record<EngineName, Engine>> = { mongo, mysql, redis, postgres }

export const isEngineName = (text: string): text is EngineName => (engineNames as readonly string[]).includes(text)

/** Connections of clients of a database with this memory in MB, those that its host lets through to its port, and those that its engine has. */
export function connectionsOf(engine: EngineName, memoryMb: number) {
  const clients = engines[engine].maxConnections(memoryMb)
  const admitted = clients + spareConnections.refused
  return { clients, admitted, inAll: admitted + spareConnections.platform }
}

/** A major version, or a full one. */
export const versionPattern = /^(\d{1,3})(?:\.\d{1,4}){0,2}$/

/** The major version on offer that `value` names; undefined when there is none, or it is no version. */
export function offeredVersion(engine: EngineName, value: unknown): string | undefined {
  const [, major] = (typeof value === 'string' && versionPattern.exec(value)) || []
  return engines[engine].versions.find(version => version === major)
}
