import { newest } from '../../../activities/containers/output.ts'
import type { LiveEvent } from '../../../activities/live/live-feed.ts'
import type { HostReader, HostReading } from '../../../api/hosts/host-reader.ts'
import { assertNotLost } from '../../../api/pipeline/access.ts'
import type { AppRow } from '../../../db/apps/apps.ts'
import { ApiError } from '../../../policy/errors.ts'
import type { ScriptedLive } from './scripted-live.ts'

/**
 * What hosts answer for each application, as the test says; of what it does not script the host is silent. Held to what real hosts
 * answer by `test/contracts/hosts.ts`, but for the last figures, which only the real reader keeps in the application's row.
 */
export class ScriptedHosts implements HostReader {
  readonly readings = new Map<string, HostReading>()
  /** All that it has printed; null = there is no container. */
  readonly printed = new Map<string, string | null>()
  readonly streams = new Map<string, ScriptedLive>()
  /** Its host does not answer, whatever else is scripted. */
  readonly silent = new Map<string, 'CLUSTER_UNAVAILABLE' | 'CLUSTER_TIMEOUT'>()

  async stats(app: AppRow): Promise<HostReading | null> {
    if (app.lost_with !== null || this.silent.has(app.id)) return null
    return this.readings.get(app.id) ?? null
  }

  async logs(app: AppRow, maxBytes: number): Promise<string | null> {
    const printed = this.#of(app, this.printed)
    return printed === null ? null : newest(printed, maxBytes)
  }

  async live(app: AppRow, signal: AbortSignal): Promise<AsyncIterable<LiveEvent[]>> {
    return this.#of(app, this.streams).open(signal)
  }

  #of<T>(app: AppRow, script: ReadonlyMap<string, T>): T {
    assertNotLost(app)
    const silence = this.silent.get(app.id)
    if (silence) throw new ApiError(silence)
    if (!script.has(app.id)) throw new ApiError('CLUSTER_UNAVAILABLE')
    return script.get(app.id)!
  }
}
