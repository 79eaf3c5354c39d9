import type { Db } from '../../db/database.ts'
import * as deployments from '../../db/deploys/deployments.ts'
import { recordImageWait } from '../../db/operations/image-waits.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { imageWithin } from '../containers/image-wait.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import { claimOfActivity, fenced, unlessLost } from '../steps/claims.ts'
import { type DeploymentLog, deploymentLog } from './deployment-log.ts'
import type { Release } from './release.ts'

export interface ImageStep {
  operationId: string
  release: Pick<Release, 'deploymentId'>
  image: string
  /** Null: as long as it takes. */
  seconds: number | null
  signal: AbortSignal
}

/** Between two lines of progress: a pull reports many times in a second. */
export const everyMs = 3000

/**
 * Waits for an image as `imageWithin` does. While it is brought, the step of the operation and the log of its deployment say so, with the
 * newest progress at most every 3 s. An image that is there costs nothing. Progress that cannot be written fails no step.
 */
export async function imageOfStep(host: Pick<AppHostOptions, 'db' | 'engine'>, step: ImageStep): Promise<void> {
  const { db, engine } = host
  const { operationId, release, image, seconds, signal } = step
  // Lines arrive in the context of the caller that started to bring the image.
  const claim = claimOfActivity()
  const fence = fenced(db, () => claim)
  const write = (words: string | null) =>
    fence(operationId, trx => recordImageWait(trx, operationId, words)).catch(
      ignoreError('it is shown only; a lost claim ends the step itself'),
    )
  const { deploymentId } = release
  const opened: { log?: DeploymentLog } = {}
  const openLog = () =>
    deploymentLog(async (text, maxBytes) => {
      let hasRoom = true
      const append = async (trx: Db) => {
        if (deploymentId) hasRoom = await deployments.appendLog(trx, deploymentId, text, maxBytes)
      }
      await fence(operationId, append).catch(unlessLost)
      return hasRoom
    })
  const name = image.replace(/^berth\//, '')
  const lines = newestLines(everyMs, async line => {
    const words = line.startsWith(`${image}: `) ? line.slice(image.length + 2) : line
    opened.log ??= openLog()
    await opened.log.add(`preparing image ${name}: ${words}\n`)
    await write(`${name}: ${words}`)
  })
  try {
    await imageWithin(engine, image, { seconds, signal, onProgress: lines.add })
  } finally {
    const shown = await lines.close()
    if (shown) await write(null)
    await opened.log?.close()
  }
}

/** Passes on the first line, and then the newest at most every `ms` milliseconds, one at a time. */
export function newestLines(ms: number, pass: (line: string) => Promise<void>) {
  let newest: string | null = null
  let timer: NodeJS.Timeout | null = null
  let passing = Promise.resolve()
  let any = false
  let closed = false

  function next(): void {
    timer = null
    if (newest === null || closed) return
    const line = newest
    newest = null
    any = true
    passing = passing.then(() => pass(line))
    timer = setTimeout(next, ms)
  }

  return {
    add(line: string): void {
      newest = line
      if (timer === null) next()
    },
    /** Drops what waits, and resolves once the last one was passed on, to whether there was any. */
    async close(): Promise<boolean> {
      closed = true
      if (timer) clearTimeout(timer)
      await passing
      return any
    },
  }
}
