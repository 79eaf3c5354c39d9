import type { EngineName } from '../../../policy/databases/engine.ts'
import type { DatabaseEngine } from '../port.ts'
import { mongoEngine } from './mongo/mongo.ts'
import { mysqlEngine } from './mysql/mysql.ts'
import { postgresEngine } from './postgres/postgres.ts'
import { redisEngine } from './redis/redis.ts'

const adapters: Record<EngineName, DatabaseEngine> = {
  mongo: mongoEngine,
  mysql: mysqlEngine,
  redis: redisEngine,
  postgres: postgresEngine,
}

/** The adapter of an engine. */
export const engineOf = (name: EngineName): DatabaseEngine => adapters[name]
