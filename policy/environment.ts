import { isAbsolute, resolve } from 'node:path'

export type Environment = Record<string, string | undefined>

/** The settings that have a value: shells and compose files leave one out by setting it to nothing. */
export function withoutEmpty(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''))
}

/** An http or https address without its trailing slash. Throws an Error that names the setting. */
export function webAddress(env: Environment, name: string): string {
  const text = required(env, name)
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw new Error(`The setting ${name} is "${text}"; it must be an http or https address.`)
  return text.replace(/\/+$/, '')
}

export function absolute(path: string, cwd: string): string {
  return isAbsolute(path) ? path : resolve(cwd, path)
}

export function required(env: Environment, name: string): string {
  const value = env[name]
  if (!value) throw new Error(`The setting ${name} is missing.`)
  return value
}

export function number(env: Environment, name: string, fallback: number): number {
  const text = env[name]
  if (text === undefined) return fallback
  const value = Number(text)
  if (!Number.isFinite(value) || value < 0)
    throw new Error(`The setting ${name} is "${text}"; it must be a number from 0.`)
  return value
}

export function integer(env: Environment, name: string, fallback: number): number {
  const value = number(env, name, fallback)
  if (!Number.isInteger(value)) throw new Error(`The setting ${name} is "${env[name]}"; it must be a whole number.`)
  return value
}

export function oneOf<const T extends string>(env: Environment, name: string, values: readonly [T, ...T[]]): T {
  const text = env[name]
  if (text === undefined) return values[0]
  const value = values.find(v => v === text)
  if (!value) throw new Error(`The setting ${name} is "${text}"; it must be one of: ${values.join(', ')}.`)
  return value
}

/** Comma-separated. */
export function list(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map(part => part.trim())
    .filter(Boolean)
}
