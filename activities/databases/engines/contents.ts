import type { EngineName } from '../../../policy/databases/engine.ts'
import type { DatabaseContents } from '../contents.ts'
import { mongoContents } from './mongo/mongo-contents.ts'
import { mysqlContents } from './mysql/mysql-contents.ts'
import { postgresContents } from './postgres/postgres-contents.ts'
import { redisContents } from './redis/redis-contents.ts'

const adapters: Record<EngineName, DatabaseContents> = {
  mongo: mongoContents,
  mysql: mysqlContents,
  postgres: postgresContents,
  redis: redisContents,
}

/** How the contents of an engine are copied. */
export const contentsOf = (name: EngineName): DatabaseContents => adapters[name]
