import { createReadStream } from 'node:fs'
import type Docker from 'dockerode'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { imagePulls } from '../../../policy/hosts/host-slots.ts'
import { runtimes } from '../../../policy/runtimes.ts'
import { HostUnreachable, ImageUnavailable } from '../port.ts'
import { call, toPortError, unless } from './calls.ts'

type Progress = (line: string) => void
type Pulls = typeof imagePulls

/** Makes a root file system for an image name (`runtimes/rootfs.ts`); null = no recipe. */
export type MakeRootfs = (
  image: string,
  onProgress: Progress,
) => Promise<{ tarball: string; changes: readonly string[] } | null>

/** Brings each image once for all deployments that wait for it, and only a few images concurrently. */
export function containerImages(docker: Docker, makeRootfs: MakeRootfs, pulls = imagePulls) {
  const slots = new FairSlots({ atOnce: pulls.atOnce })
  const inProgress = new Map<string, Promise<void>>()
  const present = (image: string): Promise<boolean> =>
    call(() => docker.getImage(image).inspect())
      .catch(unless(404))
      .then(Boolean)

  async function bring(image: string, onProgress: Progress): Promise<void> {
    const leave = await slots.enter(image)
    await bringNow(image, onProgress).finally(leave!)
  }

  async function bringNow(image: string, onProgress: Progress): Promise<void> {
    const source = officialName(image) ?? image
    const pullError = await pull(docker, source, onProgress, pulls).then(
      () => null,
      error => error as Error,
    )
    if (pullError === null) return source === image ? undefined : tag(docker, source, image)
    if (pullError instanceof HostUnreachable) throw pullError
    const rootfs = await makeRootfs(image, onProgress).catch(error => unavailable(image, error, pullError))
    if (!rootfs) return unavailable(image, pullError)
    await load(docker, image, rootfs)
  }

  return {
    async ensure(image: string, onProgress: Progress = () => {}): Promise<void> {
      if (await present(image)) return
      const pending = inProgress.get(image) ?? bring(image, onProgress).finally(() => inProgress.delete(image))
      inProgress.set(image, pending)
      await pending
    },
  }
}

function unavailable(image: string, ...causes: Error[]): never {
  const reasons = causes.map(cause => cause.message.trim()).join('; ')
  throw new ImageUnavailable(`The image ${image} is missing, cannot be pulled and cannot be made: ${reasons}`, {
    cause: causes[0],
  })
}

/** Published name of an image under `berth/`; null for every other image. */
function officialName(image: string): string | null {
  for (const runtime of Object.values(runtimes)) {
    const version = runtime.versions.find(candidate => runtime.image(candidate) === image)
    if (version !== undefined) return runtime.official(version)
  }
  return null
}

/** Rejects when nothing arrives for a while, or when it takes too long. The registry may also refuse with a message in the stream. */
async function pull(docker: Docker, image: string, onProgress: Progress, pulls: Pulls): Promise<void> {
  const timeout = new AbortController()
  const { signal } = timeout
  const giveUp = (seconds: number) =>
    timeout.abort(new Error(`The registry has not brought the image ${image} within ${seconds} s.`))
  const deadline = setTimeout(giveUp, pulls.seconds * 1000, pulls.seconds)
  const silence = setTimeout(giveUp, pulls.silentSeconds * 1000, pulls.silentSeconds)
  try {
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
    const stream = await Promise.race([docker.pull(image, { abortSignal: signal }), aborted])
    const ended = new Promise<void>((done, failed) => {
      docker.modem.followProgress(
        stream,
        error => (error ? failed(error) : done()),
        (event: { status?: string; id?: string }) => {
          silence.refresh()
          if (event.status && !/^(Downloading|Extracting)$/.test(event.status))
            onProgress([event.id, event.status].filter(Boolean).join(' '))
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

async function tag(docker: Docker, source: string, image: string): Promise<void> {
  const [repo, version] = split(image)
  await call(abortSignal => docker.getImage(source).tag({ repo, tag: version, abortSignal }))
}

async function load(
  docker: Docker,
  image: string,
  rootfs: { tarball: string; changes: readonly string[] },
): Promise<void> {
  const [repo, version] = split(image)
  const stream = await docker
    .importImage(createReadStream(rootfs.tarball), { repo, tag: version, changes: [...rootfs.changes] })
    .catch(error => {
      throw toPortError(error)
    })
  await new Promise<void>((done, failed) =>
    docker.modem.followProgress(stream, error => (error ? failed(toPortError(error)) : done())),
  )
}

function split(image: string): [string, string] {
  const colon = image.lastIndexOf(':')
  return [image.slice(0, colon), image.slice(colon + 1)]
}
