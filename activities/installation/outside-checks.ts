import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import type { CaptchaSettings } from '../../policy/accounts/captcha.ts'
import type { AiUpstream } from '../../policy/ai/ai-settings.ts'
import { CodedError } from '../../policy/errors.ts'
import { siteverifyCaptcha } from '../captcha/siteverify.ts'
import type { GitProvider } from '../git-provider/port.ts'
import { checkUpstream } from '../language-model/upstream-check.ts'
import { loginRefused, type SmtpServer, smtpLogin } from '../mail/smtp.ts'
import type { ObjectStore } from '../objects/port.ts'
import { storeMark } from './installation.ts'

/** An outside system's verdict on a secret. `away` = it did not answer, so nothing is known. */
export interface Verdict {
  settings: string
  state: 'accepted' | 'REFUSED' | 'away' | 'cannot be checked'
  why?: string
}

const limitMs = 20_000

/**
 * Puts a canary body with one opened store, and reads and removes it with the other, both ways: both must reach the same bodies.
 * `installationId` is the id that the store must have, or null where none is known.
 */
export async function checkStore(
  open: () => Promise<ObjectStore>,
  other: (() => Promise<ObjectStore>) | null,
  installationId: string | null,
): Promise<Verdict> {
  const settings = 'S3_STORE_ACCESS_KEY_ID, S3_STORE_SECRET_ACCESS_KEY'
  try {
    const store = await open()
    const mark = await storeMark(store)
    if (installationId !== null && mark !== null && mark !== installationId)
      return { settings, state: 'REFUSED', why: 'it leads to the object store of another installation' }
    await canary(store, store)
    const before = await other?.().catch(() => null)
    if (before)
      for (const [from, to] of [
        [before, store],
        [store, before],
      ] as const)
        await canary(from, to)
    return { settings, state: 'accepted' }
  } catch (error) {
    return { settings, ...refusedBy(error) }
  }
}

/** Checks that bytes put with one store can be read with the other. Rejects otherwise; leaves nothing. */
async function canary(from: ObjectStore, to: ObjectStore): Promise<void> {
  const id = randomBytes(24).toString('hex')
  const body = randomBytes(64)
  try {
    await from.put(id, Readable.from([body], { objectMode: false }))
    if (!body.equals(await to.read(id, 0, body.length)))
      throw new Error('one pair of keys does not read what the other has stored')
  } finally {
    // If the other store is a different one, the body is still in the first.
    await to.delete(id).finally(() => from.delete(id))
  }
}

/** Signs in at the mail server and sends nothing. */
export async function checkMail(server: SmtpServer): Promise<Verdict> {
  const settings = 'SMTP_URL'
  try {
    await smtpLogin(server, AbortSignal.timeout(limitMs))
    return { settings, state: 'accepted', why: server.credentials ? undefined : 'it holds no credentials' }
  } catch (error) {
    return { settings, state: loginRefused(error) ? 'REFUSED' : 'away', why: (error as Error).message }
  }
}

/** Checks the app's key by requesting the app from the provider, and the client's secret with an invalid code. */
export async function checkGit(provider: () => Promise<GitProvider | null>): Promise<Verdict[]> {
  const check = async (settings: string, request: (git: GitProvider) => Promise<boolean | null>): Promise<Verdict> => {
    try {
      const git = await provider()
      if (!git) return { settings, state: 'cannot be checked', why: 'no app is set up' }
      const answer = await request(git)
      if (answer === null) return { settings, state: 'cannot be checked', why: 'the provider does not say' }
      return { settings, state: answer ? 'accepted' : 'REFUSED' }
    } catch (error) {
      return { settings, ...refusedBy(error) }
    }
  }
  return [
    await check('GIT_PROVIDER_PRIVATE_KEY', git => git.knowsApp(AbortSignal.timeout(limitMs))),
    await check('GIT_PROVIDER_CLIENT_SECRET', git => git.knowsClient(AbortSignal.timeout(limitMs))),
    {
      settings: 'GIT_PROVIDER_WEBHOOK_SECRET',
      state: 'cannot be checked',
      why: 'only a delivery shows it: send one again at the provider',
    },
  ]
}

/** Submits an invalid answer: with the right secret, the provider refuses only the answer. */
export async function checkCaptcha(settings: Pick<CaptchaSettings, 'verifyUrl' | 'secretKey'>): Promise<Verdict> {
  const name = 'CAPTCHA_SECRET_KEY'
  try {
    await siteverifyCaptcha(settings).solvedAt('nobody-solved-this', '127.0.0.1', AbortSignal.timeout(limitMs))
    return { settings: name, state: 'accepted' }
  } catch (error) {
    return { settings: name, ...refusedBy(error) }
  }
}

/** Requests an answer of one token from each language model, in their order. */
export function checkAi(upstreams: readonly AiUpstream[]): Promise<Verdict[]> {
  return Promise.all(
    upstreams.map(async (upstream, n): Promise<Verdict> => {
      const { state, why } = await checkUpstream(upstream)
      const settings = upstreams.length === 1 ? 'AI_UPSTREAM_KEY' : `AI_UPSTREAM_KEY (upstream ${n + 1})`
      return { settings, state, why: why ?? (upstream.key ? undefined : 'not set') }
    }),
  )
}

/** Network codes for a system that does not answer. */
const unreachable = /^(ECONN|EAI_|ENOTFOUND|ETIMEDOUT|EHOST|ENET|EPIPE)/

/** Messages of our adapters contain no secrets. */
function refusedBy(error: unknown): Pick<Verdict, 'state' | 'why'> {
  const { code, name, message, $metadata } = error as Error & { code?: string; $metadata?: { httpStatusCode?: number } }
  const status = $metadata?.httpStatusCode
  const isAway =
    error instanceof CodedError
      ? error.code !== 'VALIDATION_FAILED'
      : name === 'TimeoutError' || unreachable.test(code ?? '')
  return {
    state: isAway ? 'away' : 'REFUSED',
    why: status ? `it answered ${status} (${name})` : message || code || name,
  }
}
