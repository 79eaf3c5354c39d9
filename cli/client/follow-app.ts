import { setTimeout as sleep } from 'node:timers/promises'
import { appStatus, askApp, type Target, type UploadedApp } from './client.ts'

const everyMs = 100
const statusEveryMs = 1000
/** An application without an address counts as up once it has run this long. */
const steadyMs = 3000
/** An application may answer like the proxy's own pages; after running this long its answer is believed. */
const believedMs = 10_000

export class DeployFailed extends Error {
  override name = 'DeployFailed'
}

/** Resolves when the application answers over the proxy (or runs steadily without an address); throws `DeployFailed`. */
export async function followApp(target: Target, app: UploadedApp, seconds: number): Promise<void> {
  let runningSince: number | null = null
  let askStatusAt = 0
  for (const deadline = Date.now() + seconds * 1000; Date.now() < deadline; await sleep(everyMs)) {
    if (Date.now() >= askStatusAt) {
      const status = await appStatus(target, app.id).catch(() => 'unknown') // a restarting API is asked again
      if (status === null) throw new DeployFailed('The application was taken back, because it could not be brought up.')
      if (status === 'exited') throw new DeployFailed('The program ended right after its start.')
      runningSince = status === 'running' ? (runningSince ?? Date.now()) : null
      askStatusAt = Date.now() + statusEveryMs
    }
    const ranMs = runningSince === null ? 0 : Date.now() - runningSince
    if (app.domain) {
      const answer = await askApp(target, app.domain).catch(() => null)
      if (answer && (!answer.ofProxy || ranMs > believedMs)) return
    } else if (ranMs > steadyMs) return
  }
  throw new DeployFailed(`It did not answer within ${seconds} s.`)
}
