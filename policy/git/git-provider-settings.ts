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
  /** As the setting says it; `webhookSecrets` reads it. */
  webhookSecret: string
  /** With these a person who connects proves who they are at the provider. */
  clientId: string
  clientSecret: string
}

const webhook = 'GIT_PROVIDER_WEBHOOK_SECRET'

/** All of them or none (null): half an app would only fail later. Throws an Error that names the setting that is missing. */
export function gitProviderSettings(env: Environment): GitProviderSettings | null {
  const names = Object.keys(env).filter(name => name.startsWith('GIT_PROVIDER_') && env[name])
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

/** Secrets that deliveries may be signed with: two, separated by blanks, while one takes the other's place. Never an empty one. */
export const webhookSecrets = (text: string): string[] => text.split(/\s+/).filter(Boolean)
