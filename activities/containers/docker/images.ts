import { createReadStream } from 'node:fs'
import type Docker from 'dockerode'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { engines } from '../../../policy/databases/engines.ts'
import { imagePulls } from '../../../policy/hosts/host-slots.ts'
import { runtimes } from '../../../policy/runtimes.ts'
import { ownProgram, programLabel } from '../../../runtimes/database-recipes.ts'
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
  /** An image with an older version of a program of ours does not count. */
  async function present(image: string): Promise<boolean> {
    const found = await call(() => docker.getImage(image).inspect()).catch(unless(404))
    const program = ownProgram(image)
    return Boolean(found) && (program === null || found?.Config.Labels?.[programLabel] === program)
  }

  async function bring(image: string, onProgress: Progress): Promise<void> {
    const leave = await slots.enter(image)
    await bringNow(image, onProgress).finally(leave!)
  }

  async function bringNow(image: string, onProgress: Progress): Promise<void> {
    const pullError = await bringPublished(image, onProgress)
    if (pullError === null) return
    if (pullError instanceof HostUnreachable) throw pullError
    const rootfs = await makeRootfs(image, onProgress).catch(error => unavailable(image, error, pullError))
    if (!rootfs) return unavailable(image, pullError)
    await load(docker, image, rootfs)
  }

  /** Resolves to null once the published image is here under our name, and otherwise to the reason why not. */
  async function bringPublished(image: string, onProgress: Progress): Promise<Error | null> {
    const source = publishedName(image)
    if (source === null) return new Error('no registry has it')
    try {
      await pull(docker, source, onProgress, pulls)
    } catch (error) {
      return error as Error
    }
    if (source !== image) await tag(docker, source, image)
    return null
  }

  return {
    async idOf(image: string): Promise<string | null> {
      return (await call(() => docker.getImage(image).inspect()).catch(unless(404)))?.Id ?? null
    },

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

/** The name by which a registry has the image. Null for one under `berth/` that only a recipe makes: there that name is a stranger's. */
function publishedName(image: string): string | null {
  for (const { versions, image: imageOf, official } of [...Object.values(runtimes), ...Object.values(engines)]) {
    const version = versions.find(candidate => imageOf(candidate) === image)
    const name = version === undefined ? null : official(version)
    if (name !== null) return name
  }
  return image.startsWith('berth/') ? null : image
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
