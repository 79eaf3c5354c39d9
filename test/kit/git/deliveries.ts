import { randomUUID } from 'node:crypto'
import type { Answer, TestApi, TestUser } from '../actors/api.ts'
import { type Provider, pushEvent } from './git-events.ts'

export const cloneUrl = 'https://git.example.org/ana/shop.git'

let commits = 0
/** A commit that no other test has. */
export const newCommit = (): string => (++commits).toString(16).padStart(40, 'c')

export interface Delivered {
  provider?: Provider
  branch?: string
  ref?: string
  commit?: string
  deliveryId?: string
  secret?: string
  query?: string
  cloneUrl?: string
}

/** The path of a webhook that the owner has set. */
export async function webhookOf(api: TestApi, user: TestUser, appId: string, body: object = {}): Promise<string> {
  const answer = await api
    .as(user)
    .post(`/v2/apps/${appId}/deploy/webhook`, JSON.stringify({ access_token: 'glpat-token', ...body }))
  if (answer.status !== 200) throw new Error(answer.text)
  return new URL(answer.body.response.webhook).pathname
}

/** A push as its provider sends it. */
export function deliver(api: TestApi, path: string, sent: Delivered = {}): Promise<Answer> {
  const { provider = 'github', branch = 'main', query = '' } = sent
  const { headers, body } = pushEvent(provider, {
    cloneUrl: sent.cloneUrl ?? cloneUrl,
    ref: sent.ref ?? `refs/heads/${branch}`,
    before: 'a'.repeat(40),
    after: sent.commit ?? newCommit(),
    secret: sent.secret,
    deliveryId: sent.deliveryId,
  })
  return api.as(undefined).post(path + query, body, headers)
}

/** The deployment that a reply names. */
export const named = (answer: Answer): string | undefined => /deployment ([0-9a-f]{32})/.exec(answer.text)?.[1]

/** Delivers a push as its provider does, again where it was answered 503, as on a busy machine. Resolves to the deployment that the reply names. */
export async function pushed(api: TestApi, path: string, sent: Delivered = {}): Promise<string> {
  const same = { commit: newCommit(), deliveryId: randomUUID(), ...sent }
  for (let tries = 1; ; tries++) {
    const answer = await deliver(api, path, same)
    const id = named(answer)
    if (id) return id
    if (answer.status !== 503 || tries === 10) throw new Error(`${answer.status}: ${answer.text}`)
  }
}
