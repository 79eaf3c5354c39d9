import { unlessAborted, withTimeout } from '../../lib/async/timeout.ts'
import type { ContainerHost } from './port.ts'

/** The image is being brought, and takes longer than the caller may wait. */
export class ImageOnItsWay extends Error {
  override name = 'ImageOnItsWay'
}

export interface ImageWait {
  seconds: number | null
  signal: AbortSignal
  onProgress?: (line: string) => void
}

/** Waits until an image is here; rejects with ImageOnItsWay after `seconds`, and as soon as the signal aborts. It continues to be brought. */
export async function imageWithin(
  engine: Pick<ContainerHost, 'ensureImage'>,
  image: string,
  { seconds, signal, onProgress }: ImageWait,
): Promise<void> {
  signal.throwIfAborted()
  const ready = engine.ensureImage(image, onProgress)
  const late = () => new ImageOnItsWay(`The image ${image} is still being brought to the host. Try again in a moment.`)
  const ms = seconds === null ? Number.POSITIVE_INFINITY : seconds * 1000
  await withTimeout(unlessAborted(ready, signal), ms, late)
}
