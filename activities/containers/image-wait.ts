import type { ContainerHost } from './port.ts'

/** The image is being brought, and takes longer than whoever asked may wait. */
export class ImageOnItsWay extends Error {
  override name = 'ImageOnItsWay'
}

/** Waits until an image is here; rejects with ImageOnItsWay after `seconds`, and as soon as the signal aborts. It is brought all the same. */
export async function imageWithin(
  engine: Pick<ContainerHost, 'ensureImage'>,
  image: string,
  { seconds, signal }: { seconds: number | null; signal: AbortSignal },
): Promise<void> {
  signal.throwIfAborted()
  const bringing = engine.ensureImage(image)
  let timer: NodeJS.Timeout | undefined
  let leave = () => {}
  const over = new Promise<never>((_, reject) => {
    leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave, { once: true })
    const late = () =>
      reject(new ImageOnItsWay(`The image ${image} is still being brought to the host. Try again in a moment.`))
    if (seconds !== null) timer = setTimeout(late, seconds * 1000)
  })
  try {
    await Promise.race([bringing, over])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}
