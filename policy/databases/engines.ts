import { type Engine, type EngineName, engineNames } from './engine.ts'
import { mongo } from './mongo.ts'
import { mysql } from './mysql.ts'
import { postgres } from './postgres.ts'
import { redis } from './redis.ts'

export const engines: Readonly<Record<EngineName, Engine>> = { mongo, mysql, redis, postgres }

export const isEngineName = (text: string): text is EngineName => (engineNames as readonly string[]).includes(text)

/** The major version on offer that `text` names, a major version or a full one; undefined when there is none. */
export function offeredVersion(engine: EngineName, text: string): string | undefined {
  const [, major] = /^(\d{1,3})(?:\.\d{1,4}){0,2}$/.exec(text) ?? []
  return engines[engine].versions.find(version => version === major)
}
