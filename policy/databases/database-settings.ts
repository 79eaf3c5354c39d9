import { isIPv4 } from 'node:net'
import { type Environment, integer, list, oneOf } from '../environment.ts'
import { type EngineName, engineNames } from './engine.ts'
import { engines, isEngineName } from './engines.ts'
import { mongoStandIn } from './mongo.ts'

/** Settings of the databases that customers rent. */
export interface DatabaseSettings {
  /** Types that are offered, in the order in which hosts prepare them; empty = none. */
  engines: EngineName[]
  /** Where the image of MongoDB cannot be pulled, a server that speaks its protocol may serve. */
  mongoStandIn: boolean
  /** When Redis has on its disk what it acknowledges: always before, or within a second. */
  redisSync: 'always' | 'everysec'
  /** Ports of databases, both included. */
  ports: { from: number; to: number }
  /** The address of the host at which databases publish their ports. */
  bind: string
  /** Suffix of databases' names. */
  domain: string
  /** Days after which the newest snapshot of a database is tried again; 0 = only when an operator requests it. */
  drillDays: number
}

/** Throws an Error that names the setting and what it accepts. */
export function databaseSettings(env: Environment, appsDomain: string): DatabaseSettings {
  return {
    engines: enginesOf(env.DATABASE_ENGINES),
    mongoStandIn: oneOf(env, 'MONGO_STAND_IN', ['off', 'on']) === 'on',
    redisSync: oneOf(env, 'DATABASE_REDIS_SYNC', ['always', 'everysec']),
    ports: portsOf(env.DATABASE_PORTS ?? '20000-24999'),
    bind: addressOf(env.DATABASE_BIND ?? '127.0.0.1'),
    domain: env.DATABASE_DOMAIN ?? appsDomain,
    drillDays: drillDaysOf(env),
  }
}

function enginesOf(text: string | undefined): EngineName[] {
  if (text === undefined) return [...engineNames]
  const names = list(text)
  if (names.length === 1 && names[0] === 'none') return []
  if (names.length === 0 || !names.every(isEngineName))
    throw new Error(
      `The setting DATABASE_ENGINES is "${text}"; it must be \`none\`, or some of ${engineNames.join(', ')}, separated by commas.`,
    )
  return [...new Set(names)]
}

/** The images that a host needs for what is offered, in the order in which it prepares them. */
export function imagesOnOffer({
  engines: offered,
  mongoStandIn: withStandIn,
}: Pick<DatabaseSettings, 'engines' | 'mongoStandIn'>): string[] {
  return offered.flatMap(name => {
    const { versions, image } = engines[name]
    const real = versions.map(image)
    return name === 'mongo' && withStandIn ? [...real, ...versions.map(mongoStandIn.image)] : real
  })
}

function addressOf(text: string): string {
  if (isIPv4(text)) return text
  throw new Error(`The setting DATABASE_BIND is "${text}"; it must be an IPv4 address, such as 127.0.0.1 or 0.0.0.0.`)
}

/** Evidence is retained for longer, so that the last one is always there. */
const maxDrillDays = 365

function drillDaysOf(env: Environment): number {
  const days = integer(env, 'DATABASE_DRILL_DAYS', 7)
  if (days > maxDrillDays)
    throw new Error(
      `The setting DATABASE_DRILL_DAYS is "${days}"; it must be a whole number of days up to ${maxDrillDays}, or 0 for none.`,
    )
  return days
}

/** Ports below are reserved for services of the machine. */
const minPort = 1024

function portsOf(text: string): { from: number; to: number } {
  const [from = 0, to = 0] = /^(\d{1,5})-(\d{1,5})$/.exec(text)?.slice(1).map(Number) ?? []
  if (from < minPort || to < from || to > 65_535)
    throw new Error(
      `The setting DATABASE_PORTS is "${text}"; it must be two port numbers from ${minPort} to 65535, such as 20000-24999.`,
    )
  return { from, to }
}
