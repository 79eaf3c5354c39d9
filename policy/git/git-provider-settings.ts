import { type Environment, required, webAddress } from '../environment.ts'

/** The platform's app at a git provider with a GitHub-compatible API. */
export interface GitProviderSettings {
  apiUrl: string
  /** Where people install the app and sign in. */
  webUrl: string
  appId: string
  appSlug: string
  /** PEM, or the path of a file that holds it. */
  privateKey: string
  /** As set; `webhookSecrets` parses it. */
  webhookSecret: string
  /** For OAuth: a person who connects proves their identity at the provider. */
  clientId: string
  clientSecret: string
}

const webhook = 'GIT_PROVIDER_WEBHOOK_SECRET'

/** All settings or none (null): an incomplete app would only fail later. Throws an Error that names the missing setting. */
export function gitProviderSettings(env: Environment): GitProviderSettings | null {
  const names = Object.keys(env).filter(name => name.startsWith('GIT_PROVIDER_') && env[name] !== undefined)
  if (names.length === 0) return null
  return {
    apiUrl: webAddress(env, 'GIT_PROVIDER_API_URL'),
    webUrl: webAddress(env, 'GIT_PROVIDER_WEB_URL'),
    appId: required(env, 'GIT_PROVIDER_APP_ID'),
    appSlug: required(env, 'GIT_PROVIDER_APP_SLUG'),
    privateKey: required(env, 'GIT_PROVIDER_PRIVATE_KEY'),
    webhookSecret: required({ ...env, [webhook]: env[webhook]?.trim() }, webhook),
    clientId: required(env, 'GIT_PROVIDER_CLIENT_ID'),
    clientSecret: required(env, 'GIT_PROVIDER_CLIENT_SECRET'),
  }
}

/** Secrets that deliveries may be signed with: two, separated by whitespace, during a rotation. Never an empty one. */
export const webhookSecrets = (text: string): string[] => text.split(/\s+/).filter(Boolean)
