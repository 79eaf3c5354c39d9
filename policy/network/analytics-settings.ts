import { absolute, type Environment, integer, oneOf } from '../environment.ts'

export interface AnalyticsSettings {
  /** False: no process collects requests, and questions about them are refused. */
  isOn: boolean
  /** Loopback port of the process. */
  port: number
  /** Of all days together. */
  maxMb: number
  /** Concurrent questions. */
  questions: number
}

/** Throws an Error that names the setting and what it accepts. */
export function analyticsSettings(env: Environment): AnalyticsSettings {
  return {
    isOn: oneOf(env, 'ANALYTICS', ['on', 'off']) === 'on',
    port: integer(env, 'ANALYTICS_PORT', 4005),
    maxMb: integer(env, 'ANALYTICS_MB', 4096),
    questions: Math.max(1, integer(env, 'ANALYTICS_QUERIES', 2)),
  }
}

/** Databases of addresses (mmdb) of the operator. */
export interface AddressDatabases {
  /** Null: that of the package. */
  countryDatabase: string | null
  /** Null: providers are not known. */
  asnDatabase: string | null
}

export function addressDatabases(env: Environment, cwd: string): AddressDatabases {
  return {
    countryDatabase: env.COUNTRY_DATABASE ? absolute(env.COUNTRY_DATABASE, cwd) : null,
    asnDatabase: env.ASN_DATABASE ? absolute(env.ASN_DATABASE, cwd) : null,
  }
}
