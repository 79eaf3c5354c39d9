import { newest } from '../../../activities/containers/output.ts'
import type { LiveEvent } from '../../../activities/live/live-feed.ts'
import type { Hosted } from '../../../api/hosts/host-call.ts'
import type { HostReader, HostReading } from '../../../api/hosts/host-reader.ts'
import { assertNotLost } from '../../../api/pipeline/access.ts'
import { CodedError } from '../../../policy/errors.ts'
import type { ScriptedLive } from './scripted-live.ts'

/**
 * What hosts answer for each application and database, as the test says; of what it does not script the host is silent. Held to what real hosts
 * answer by `test/contracts/hosts.ts`, but for the last figures, which only the real reader keeps in the row.
 */
export class ScriptedHosts implements HostReader {
  readonly readings = new Map<string, HostReading>()
  /** All that it has printed; null = there is no container. */
  readonly printed = new Map<string, string | null>()
  readonly streams = new Map<string, ScriptedLive>()
  /** Its host does not answer, whatever else is scripted. */
  readonly silent = new Map<string, 'CLUSTER_UNAVAILABLE' | 'CLUSTER_TIMEOUT'>()

  async stats(hosted: Hosted): Promise<HostReading | null> {
    if (hosted.lost_with !== null || this.silent.has(hosted.id)) return null
    return this.readings.get(hosted.id) ?? null
  }

  async logs(hosted: Hosted, maxBytes: number): Promise<string | null> {
    const printed = this.#of(hosted, this.printed)
    return printed === null ? null : newest(printed, maxBytes)
  }

  async live(hosted: Hosted, signal: AbortSignal): Promise<AsyncIterable<LiveEvent[]>> {
    return this.#of(hosted, this.streams).open(signal)
  }

  #of<T>(hosted: Hosted, script: ReadonlyMap<string, T>): T {
    assertNotLost(hosted)
    const silence = this.silent.get(hosted.id)
    if (silence) throw new CodedError(silence)
    if (!script.has(hosted.id)) throw new CodedError('CLUSTER_UNAVAILABLE')
    return script.get(hosted.id)!
  }
}
