import type Docker from 'dockerode'
import { MiB } from '../../../lib/bytes.ts'
import type { imagePulls } from '../../../policy/hosts/host-slots.ts'
import { toPortError } from './calls.ts'

type Pulls = typeof imagePulls

export interface PullOptions {
  /** Receives how far the pull is, in words, with every report of the engine. */
  onProgress(line: string): void
  pulls: Pulls
  /** Gives the pull up; the engine then drops layers that are not whole. */
  signal?: AbortSignal | undefined
}

/** Rejects when nothing arrives for a while, or when it takes too long. The registry may also refuse with a message in the stream. */
export async function pull(docker: Docker, image: string, { onProgress, pulls, signal: given }: PullOptions) {
  const timeout = new AbortController()
  const signal = given ? AbortSignal.any([timeout.signal, given]) : timeout.signal
  const giveUp = (seconds: number) =>
    timeout.abort(new Error(`The registry has not brought the image ${image} within ${seconds} s.`))
  const deadline = setTimeout(giveUp, pulls.seconds * 1000, pulls.seconds)
  const silence = setTimeout(giveUp, pulls.silentSeconds * 1000, pulls.silentSeconds)
  const layers = new PullProgress()
  try {
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
    onProgress(`pulling ${image}`)
    const stream = await Promise.race([docker.pull(image, { abortSignal: signal }), aborted])
    const ended = new Promise<void>((done, failed) => {
      docker.modem.followProgress(
        stream,
        error => (error ? failed(error) : done()),
        (event: PullEvent) => {
          silence.refresh()
          layers.see(event)
          const words = layers.words()
          if (words) onProgress(`pulling ${image}: ${words}`)
        },
      )
    })
    await Promise.race([ended, aborted])
  } catch (error) {
    throw signal.aborted ? signal.reason : toPortError(error)
  } finally {
    clearTimeout(deadline)
    clearTimeout(silence)
  }
}

/** One report of the engine, about a layer when it has an id. */
export interface PullEvent {
  status?: string
  id?: string
  progressDetail?: { current?: number; total?: number }
}

const present = new Set(['Pull complete', 'Already exists'])
/** Names of tags and digests are reported with ids too. */
const ofLayer =
  /^(Pulling fs layer|Waiting|Downloading|Verifying Checksum|Download complete|Extracting|Pull complete|Already exists)$/

/** What the engine has reported of a pull. */
class PullProgress {
  readonly #layers = new Map<string, { bytes: number; total: number; here: boolean }>()

  see({ status = '', id, progressDetail }: PullEvent): void {
    if (id === undefined || !ofLayer.test(status)) return
    const layer = this.#layers.get(id) ?? { bytes: 0, total: 0, here: false }
    if (status === 'Downloading') {
      layer.bytes = progressDetail?.current ?? layer.bytes
      layer.total = progressDetail?.total ?? layer.total
    } else if (status !== 'Pulling fs layer' && status !== 'Waiting') layer.bytes = layer.total
    layer.here ||= present.has(status)
    this.#layers.set(id, layer)
  }

  /** Bytes of the layers whose size is known, and how many layers are complete; empty before the first. */
  words(): string {
    if (this.#layers.size === 0) return ''
    const layers = [...this.#layers.values()]
    const mb = (of: 'bytes' | 'total') => Math.round(layers.reduce((sum, layer) => sum + layer[of], 0) / MiB)
    const here = layers.filter(layer => layer.here).length
    return `${mb('bytes')} of ${mb('total')} MB, ${here} of ${layers.length} layers`
  }
}
