import { isPrivateAddress } from '../../lib/addresses.ts'
import { type Environment, integer, list } from '../environment.ts'

/** What the AI gateway forwards to. */
export interface AiSettings {
  /** In order of preference. Without any, each call is refused as overloaded. */
  upstreams: AiUpstream[]
  /** Max concurrent calls at one upstream, over all API processes of this machine. */
  concurrency: number
  /** Tokens of all accounts together in a UTC day; null = no limit. */
  dailyTokens: number | null
  /** Address of a SearXNG; null: models cannot search the web. */
  searchUrl: string | null
  /** Address that counts tokens of prompts; null: they are estimated. */
  tokenizeUrl: string | null
}

/** A server that answers chat completions. */
export interface AiUpstream {
  /** Base address, without a slash at its end. */
  url: string
  key: string | null
  model: string
  /** The name of the output ceiling in requests. */
  maxTokensField: MaxTokensField
}

const maxTokensFields = ['max_tokens', 'max_completion_tokens'] as const
type MaxTokensField = (typeof maxTokensFields)[number]

/** The base address for clients of the AI gateway. */
export const aiAddress = ({ urls }: { urls: { base: string } }): string => `${urls.base}/v2/ai`

/** Throws an Error that names the setting and what it accepts, and that repeats no key and no address. */
export function aiSettings(env: Environment): AiSettings {
  const urls = list(env.AI_UPSTREAM_URL).map(url => address('AI_UPSTREAM_URL', url))
  const keys = perUpstream('AI_UPSTREAM_KEY', env.AI_UPSTREAM_KEY ?? '', urls.length).map(keyOf)
  const models = perUpstream('AI_UPSTREAM_MODEL', env.AI_UPSTREAM_MODEL ?? 'cubic', urls.length)
  if (models.includes('')) throw new Error('The setting AI_UPSTREAM_MODEL has an empty name of a model.')
  const fields = perUpstream('AI_MAX_TOKENS_FIELD', env.AI_MAX_TOKENS_FIELD ?? 'max_tokens', urls.length).map(fieldOf)
  return {
    upstreams: urls.map((url, n) => ({
      url,
      key: one(keys, n),
      model: one(models, n),
      maxTokensField: one(fields, n),
    })),
    concurrency: fromOne(env, 'AI_CONCURRENCY', 32),
    dailyTokens: env.AI_DAILY_TOKENS === undefined ? null : fromOne(env, 'AI_DAILY_TOKENS', 1),
    searchUrl: env.AI_SEARCH_URL === undefined ? null : address('AI_SEARCH_URL', env.AI_SEARCH_URL),
    tokenizeUrl: env.AI_TOKENIZE_URL === undefined ? null : address('AI_TOKENIZE_URL', env.AI_TOKENIZE_URL),
  }
}

/** The n-th of several values, or the only one. */
const one = <T>(values: readonly T[], n: number): T => (values.length === 1 ? values[0]! : values[n]!)

/** Values for all upstreams, or for each. Empty ones keep their place, so that one upstream may have no key. */
function perUpstream(name: string, text: string, upstreams: number): string[] {
  const values = text.split(',').map(value => value.trim())
  if (values.length === 1 || values.length === upstreams) return values
  throw new Error(
    `The setting ${name} has ${values.length} values; it must have one, or as many as AI_UPSTREAM_URL, which has ${upstreams}.`,
  )
}

/** A header carries it: anything but printable ASCII would fail at each call. */
function keyOf(text: string): string | null {
  if (/^[\x21-\x7e]*$/.test(text)) return text || null
  throw new Error('The setting AI_UPSTREAM_KEY must be keys of printable ASCII characters, separated by commas.')
}

function fieldOf(text: string): MaxTokensField {
  const field = maxTokensFields.find(name => name === text)
  if (!field)
    throw new Error(`The setting AI_MAX_TOKENS_FIELD is "${text}"; it must be one of: ${maxTokensFields.join(', ')}.`)
  return field
}

function fromOne(env: Environment, name: string, fallback: number): number {
  const value = integer(env, name, fallback)
  if (value < 1) throw new Error(`The setting ${name} is "${env[name]}"; it must be a whole number from 1.`)
  return value
}

/**
 * What is sent there are conversations of customers, often with a key: plain http only where the way leads through this machine or
 * a private network.
 */
function address(name: string, text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || /[?#]/.test(text))
    throw new Error(`The setting ${name} must be an http or https address without user name, query and fragment.`)
  if (url.protocol === 'http:' && !isNear(url.hostname))
    throw new Error(
      `The setting ${name} must be an https address: http is permitted for loopback and private IP addresses, for names without a dot, and for names in .localhost, .local and .internal.`,
    )
  return text.replace(/\/+$/, '')
}

/** Names without a dot and in these domains are never those of a public network: only this machine's or network's DNS knows them. */
const isNear = (host: string): boolean =>
  isPrivateAddress(host.replace(/^\[|\]$/g, '')) || /^[^.:[\]]+$|\.(localhost|local|internal)\.?$/.test(host)
