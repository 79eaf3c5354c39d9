import type { RemoteEngine } from '../../../activities/databases/port.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import type { Customer } from '../../contracts/database-engine.ts'
import { mongoCustomer } from './mongo-customer.ts'
import { mysqlCustomer } from './mysql-customer.ts'
import { postgresCustomer } from './postgres-customer.ts'
import { redisCustomer } from './redis-customer.ts'

/** How customers connect to each engine. */
export const customers: Record<EngineName, (remote: RemoteEngine, password: string) => Promise<Customer>> = {
  mongo: mongoCustomer,
  mysql: mysqlCustomer,
  postgres: postgresCustomer,
  redis: redisCustomer,
}
