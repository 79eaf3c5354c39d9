import { setTimeout as sleep } from 'node:timers/promises'
import type { Say } from '../terminal/terminal.ts'
import { type DeployEvent, deploymentEvents, requestApp, type Target, type UploadedApp } from './client.ts'

const everyMs = 100
/** Pauses between queries of the API: most deployments end within a second. Then at half the rate that the smallest plan allows. */
const firstPausesMs = [600, 600]
const pauseMs = 2000
/** An application may answer like a page of the proxy: such an answer counts as the application's once it has served this long. */
const acceptAnyAnswerMs = 10_000

export class DeployFailed extends Error {
  override name = 'DeployFailed'
  constructor(
    message: string,
    /** Code of the deployment; null if the wait ended first. */
    readonly code: string | null = null,
    readonly deploymentId: string | null = null,
  ) {
    super(message)
  }
}

const words: Record<DeployEvent['state'], string> = {
  pending: 'waiting in the queue',
  clone: 'unpacking, and installing dependencies',
  commit: 'placing the files',
  restarting: 'starting, waiting for an answer',
  success: 'serving',
  error: 'failed',
}

export interface Following {
  /** Max time. */
  seconds: number
  /** The operation whose deployment is followed; without it, the newest deployment of the application. */
  operationId?: string | null
  /** A version before it may answer, so that an answer says nothing before the deployment has succeeded. */
  isUpdate?: boolean
}

/**
 * Follows a deployment of an application, with a line for each step, until it serves and, if it has an address, answers through
 * the proxy. Resolves to the deployment's id; throws `DeployFailed` with the code that it ended with.
 */
export async function followApp(
  target: Target,
  app: UploadedApp,
  { seconds, operationId = null, isUpdate = false }: Following,
  say: Say = () => {},
): Promise<string | null> {
  const seen: Seen = { events: 0, id: null, servesSince: null }
  let [queries, nextQueryAt] = [0, 0]
  for (const deadline = Date.now() + seconds * 1000; Date.now() < deadline; await sleep(everyMs)) {
    if (seen.servesSince === null && Date.now() >= nextQueryAt) {
      await followEvents(() => deploymentEvents(target, app.id, operationId), seen, say)
      nextQueryAt = Date.now() + (firstPausesMs[queries++] ?? pauseMs)
    }
    if (isUpdate && seen.servesSince === null) continue
    if (app.domain) {
      const answer = await requestApp(target, app.domain).catch(() => null)
      if (answer && !answer.ofProxy) return seen.id
      if (answer && seen.servesSince !== null && Date.now() - seen.servesSince > acceptAnyAnswerMs) return seen.id
    } else if (seen.servesSince !== null) return seen.id
  }
  const what =
    seen.servesSince === null ? 'The deployment goes on' : `${app.domain} serves, but does not answer from here`
  throw new DeployFailed(`The application did not answer within ${seconds} s. ${what}.`, null, seen.id)
}

/** What is known of a deployment that is followed. */
interface Seen {
  /** Events that have their line. */
  events: number
  id: string | null
  servesSince: number | null
}

/** A line for each new event, and what they say in `seen`. Throws `DeployFailed`. */
async function followEvents(read: () => Promise<DeployEvent[] | null>, seen: Seen, say: Say): Promise<void> {
  const events = await read().catch(() => []) // an API that is restarting answers later
  if (events === null)
    throw new DeployFailed('The application could not be started and was removed again.', null, seen.id)
  for (const event of events.slice(seen.events)) say(`  ${line(event)}`)
  seen.events = Math.max(seen.events, events.length)
  const last = events.at(-1)
  seen.id = last?.deployment_id ?? seen.id
  if (last?.state === 'error')
    throw new DeployFailed([last.code, last.message].filter(Boolean).join(': '), last.code ?? null, seen.id)
  if (last?.state === 'success') seen.servesSince = Date.now()
}

function line({ state, position, waiting_for }: DeployEvent): string {
  const why =
    state === 'pending' && (waiting_for ?? (position && position > 1 ? `number ${position} in the queue` : ''))
  return why ? `${words[state]}: ${why}` : words[state]
}
