import { createHash } from 'node:crypto'
import type { Environment } from '../environment.ts'

/** Secrets that an outside system issues, by system, and the processes that use them. */
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
  ai: { settings: ['AI_UPSTREAM_KEY'], processes: ['api'] },
} as const

export type OutsideSystem = keyof typeof outsideSecrets
export const outsideSystems = Object.keys(outsideSecrets) as OutsideSystem[]

/**
 * A value from a rotation, and digests of the values that it replaces, which is the empty string where the environment has none. A later
 * change of the environment, or the removal of a setting, takes precedence again.
 */
interface KeptValue {
  value: string
  replaces: string[]
}
export type KeptValues = Readonly<Record<string, KeptValue>>

/** Stored values that apply with this environment: where it has the same value, or one that they replace. */
export function valuesInPlace(env: Environment, stored: KeptValues = {}): Record<string, string> {
  return Object.fromEntries(
    Object.entries(stored).flatMap(([name, { value, replaces }]) => {
      const current = env[name] ?? ''
      return current === value || replaces.includes(digest(current)) ? [[name, value]] : []
    }),
  )
}

/** The stored values with new ones that replace those of `env`. */
export function withValues(stored: KeptValues, env: Environment, values: Record<string, string>): KeptValues {
  const added = Object.entries(values).map(([name, value]): [string, KeptValue] => {
    const { replaces = [], value: last } = stored[name] ?? {}
    const before = [...replaces, ...[last, env[name] ?? ''].flatMap(old => (old === undefined ? [] : [digest(old)]))]
    return [name, { value, replaces: [...new Set(before)] }]
  })
  return { ...stored, ...Object.fromEntries<KeptValue>(added) }
}

/**
 * Parses new values from lines `NAME=value`, as in an environment file; empty lines and comments are skipped. Throws an Error that lists
 * the names of the system, and never shows a value.
 */
export function readValues(system: OutsideSystem, text: string): Record<string, string> {
  const settings: readonly string[] = outsideSecrets[system].settings
  const pairs = text.split('\n').flatMap(line => {
    const trimmed = line.trim()
    if (trimmed === '' || trimmed.startsWith('#')) return []
    const [, name, value] = /^([A-Z0-9_]+)\s*=\s*(.+)$/.exec(trimmed) ?? []
    if (!name || !value || !settings.includes(name))
      throw new Error(`Lines must be NAME=value, with these names: ${settings.join(', ')}.`)
    return [[name, value.replace(/^(["'])(.*)\1$/, '$2')] as const]
  })
  if (pairs.length === 0)
    throw new Error(`No new value was given. Lines must be NAME=value, with these names: ${settings.join(', ')}.`)
  return Object.fromEntries(pairs)
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')
