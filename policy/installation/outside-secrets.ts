import { createHash } from 'node:crypto'
import type { Environment } from '../environment.ts'

/** Secrets that an outside system gives out, by system, and the processes that hold them. */
export const outsideSecrets = {
  store: {
    settings: ['S3_STORE_ACCESS_KEY_ID', 'S3_STORE_SECRET_ACCESS_KEY'],
    processes: ['worker', 'host', 'api'],
  },
  mail: { settings: ['SMTP_URL'], processes: ['worker'] },
  git: {
    settings: ['GIT_PROVIDER_PRIVATE_KEY', 'GIT_PROVIDER_CLIENT_SECRET', 'GIT_PROVIDER_WEBHOOK_SECRET'],
    processes: ['host', 'api'],
  },
  captcha: { settings: ['CAPTCHA_SECRET_KEY'], processes: ['api'] },
} as const

export type OutsideSystem = keyof typeof outsideSecrets
export const outsideSystems = Object.keys(outsideSecrets) as OutsideSystem[]

/**
 * A value that a rotation brought, and digests of what it took the place of, which is the empty text where the environment said nothing:
 * who changes the environment later, or takes a setting out of it, wins again.
 */
interface KeptValue {
  value: string
  replaces: string[]
}
export type KeptValues = Readonly<Record<string, KeptValue>>

/** Of kept values those that count beside this environment: where it says them, or what they took the place of. */
export function valuesInPlace(env: Environment, kept: KeptValues = {}): Record<string, string> {
  return Object.fromEntries(
    Object.entries(kept).flatMap(([name, { value, replaces }]) => {
      const said = env[name] ?? ''
      return said === value || replaces.includes(digest(said)) ? [[name, value]] : []
    }),
  )
}

/** The kept values with new ones in the place of what `env` says. */
export function withValues(kept: KeptValues, env: Environment, values: Record<string, string>): KeptValues {
  const added = Object.entries(values).map(([name, value]): [string, KeptValue] => {
    const { replaces = [], value: last } = kept[name] ?? {}
    const before = [...replaces, ...[last, env[name] ?? ''].flatMap(old => (old === undefined ? [] : [digest(old)]))]
    return [name, { value, replaces: [...new Set(before)] }]
  })
  return { ...kept, ...Object.fromEntries<KeptValue>(added) }
}

/**
 * New values out of lines `NAME=value`, as in an environment file; empty lines and comments are skipped. Throws an Error that names
 * what does not belong to the system, and never a value.
 */
export function readValues(system: OutsideSystem, text: string): Record<string, string> {
  const known: readonly string[] = outsideSecrets[system].settings
  const pairs = text.split('\n').flatMap(line => {
    const trimmed = line.trim()
    if (trimmed === '' || trimmed.startsWith('#')) return []
    const [, name, value] = /^([A-Z0-9_]+)\s*=\s*(.+)$/.exec(trimmed) ?? []
    if (!name || !value || !known.includes(name))
      throw new Error(`Lines are NAME=value, with these names: ${known.join(', ')}.`)
    return [[name, value.replace(/^(["'])(.*)\1$/, '$2')] as const]
  })
  if (pairs.length === 0)
    throw new Error(`No new value was given. Lines are NAME=value, with these names: ${known.join(', ')}.`)
  return Object.fromEntries(pairs)
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')
