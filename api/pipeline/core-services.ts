import type { z } from 'zod'
import type { Captcha } from '../../activities/captcha/port.ts'
import type { Db } from '../../db/database.ts'
import type { Plans } from '../../policy/accounts/plans.ts'
import type { Config } from '../../policy/config.ts'
import type { ServiceStatus } from '../status/service-status.ts'
import type { Authenticate } from './authenticate.ts'
import type { InCountries } from './countries.ts'
import type { EarlierCredentials } from './earlier-credentials.ts'
import type { Limiter } from './limiter.ts'

export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** What every request needs. */
export interface CoreServices {
  db: Db
  config: Config
  plans: Plans
  authenticate: Authenticate
  limiter: Limiter
  /** Credentials that were issued before they carried a checksum. */
  earlier: EarlierCredentials
  /** Whether an address belongs to the platform itself, so that the limit for outside addresses does not apply. */
  isInside(address: string): boolean
  /** Whether an address is registered in a country that the operator blocks. */
  isBlocked: InCountries
  /** Whether an address is registered in a country that has to solve a captcha. */
  asksCaptcha: InCountries
  /** Null: no country has to solve one. */
  captcha: Captcha | null
  /** The state of the platform's own parts. */
  service: ServiceStatus
  log: Log
  /** Lets tests compare what endpoints answer with what they declare; undefined in production. */
  contract?: ContractWatch
}

interface ContractWatch {
  /** An endpoint threw a code that it does not declare. */
  undeclared(endpoint: string, code: string, declared: readonly string[]): void
  /** An endpoint succeeded with a value that must match its schema, if it has one. */
  answered(endpoint: string, value: unknown, schema: z.ZodType | undefined): void
}
