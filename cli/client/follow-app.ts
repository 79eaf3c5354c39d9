import { setTimeout as sleep } from 'node:timers/promises'
import type { Say } from '../terminal/terminal.ts'
import { askApp, type DeployEvent, newestDeployment, type Target, type UploadedApp } from './client.ts'

const everyMs = 100
/** How often the API is queried: half of what the smallest plan may send in a minute. */
const eventsEveryMs = 2000
/** An application may answer like the proxy's own pages; this long after it serves its answer is believed. */
const believedMs = 10_000

export class DeployFailed extends Error {
  override name = 'DeployFailed'
  constructor(
    message: string,
    /** Of the deployment; null where it was given up waiting. */
    readonly code: string | null = null,
    readonly deploymentId: string | null = null,
  ) {
    super(message)
  }
}

const words: Record<DeployEvent['state'], string> = {
  pending: 'waiting for its turn',
  clone: 'unpacking and installing what it needs',
  commit: 'placing the files',
  restarting: 'starting; waiting until it answers',
  success: 'it serves',
  error: 'it failed',
}

/**
 * Follows the newest deployment of an application, a line for each of its steps, until it serves and, with an address, answers over the
 * proxy. Resolves to the id of the deployment; throws `DeployFailed` with the code that it ended with.
 */
export async function followApp(
  target: Target,
  app: UploadedApp,
  seconds: number,
  say: Say = () => {},
): Promise<string | null> {
  let shown = 0
  let askAt = 0
  let id: string | null = null
  let servesSince: number | null = null
  for (const deadline = Date.now() + seconds * 1000; Date.now() < deadline; await sleep(everyMs)) {
    if (servesSince === null && Date.now() >= askAt) {
      askAt = Date.now() + eventsEveryMs
      const events = await newestDeployment(target, app.id).catch(() => []) // an API that restarts answers later
      if (events === null)
        throw new DeployFailed('The application was taken back, because it could not be brought up.', null, id)
      for (const event of events.slice(shown)) say(`  ${line(event)}`)
      shown = Math.max(shown, events.length)
      const last = events.at(-1)
      id = last?.deployment_id ?? id
      if (last?.state === 'error')
        throw new DeployFailed([last.code, last.message].filter(Boolean).join(': '), last.code ?? null, id)
      if (last?.state === 'success') servesSince = Date.now()
    }
    if (app.domain) {
      const answer = await askApp(target, app.domain).catch(() => null)
      if (answer && !answer.ofProxy) return id
      if (answer && servesSince !== null && Date.now() - servesSince > believedMs) return id
    } else if (servesSince !== null) return id
  }
  throw new DeployFailed(`It did not answer within ${seconds} s.`, null, id)
}

function line({ state, position, waiting_for }: DeployEvent): string {
  const why =
    state === 'pending' && (waiting_for ?? (position && position > 1 ? `number ${position} in the queue` : ''))
  return why ? `${words[state]}: ${why}` : words[state]
}
