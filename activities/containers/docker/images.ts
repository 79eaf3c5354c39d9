import { createReadStream } from 'node:fs'
import type Docker from 'dockerode'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { engines } from '../../../policy/databases/engines.ts'
import { imagePulls } from '../../../policy/hosts/host-slots.ts'
import { runtimes } from '../../../policy/runtimes.ts'
import { ownProgram, programLabel } from '../../../runtimes/database-recipes.ts'
import { HostUnreachable, ImageUnavailable } from '../port.ts'
import { call, toPortError, unless } from './calls.ts'
import { type PullOptions, pull } from './pull.ts'

type Progress = (line: string) => void

/** Makes a root file system for an image name (`runtimes/rootfs.ts`); null = no recipe. */
export type MakeRootfs = (
  image: string,
  onProgress: Progress,
  signal?: AbortSignal,
) => Promise<{ tarball: string; changes: readonly string[] } | null>

/** An image that is being brought. */
interface Bringing {
  done: Promise<void>
  listeners: Set<Progress>
  /** The newest progress. */
  line: string
  /** Ends it for an image that someone waits for; null = someone waits for this one. */
  giveWay: AbortController | null
  /** Ends the work on an image without waiters, also when it is built here. */
  end: AbortController
}

/** Brings each image once for all deployments that wait for it, and only a few images concurrently. */
export function containerImages(docker: Docker, makeRootfs: MakeRootfs, pulls = imagePulls) {
  const slots = new FairSlots({ atOnce: pulls.atOnce })
  const inProgress = new Map<string, Bringing>()
  /** An image with an older version of one of our programs does not count. */
  async function present(image: string): Promise<boolean> {
    const details = await call(() => docker.getImage(image).inspect()).catch(unless(404))
    const program = ownProgram(image)
    return Boolean(details) && (program === null || details?.Config.Labels?.[programLabel] === program)
  }

  /** Starts to bring an image, for someone who waits or in the background. */
  function start(image: string, giveWay: AbortController | null): Bringing {
    const bringing: Bringing = {
      done: Promise.resolve(),
      listeners: new Set(),
      line: '',
      giveWay,
      end: new AbortController(),
    }
    const onProgress = (line: string) => {
      bringing.line = line
      for (const listener of bringing.listeners) listener(line)
    }
    if (giveWay === null) for (const other of inProgress.values()) other.giveWay?.abort(gaveWay)
    const work = giveWay
      ? bringNow(image, onProgress, giveWay.signal, bringing.end.signal)
      : bringInTurn(image, onProgress)
    bringing.done = work.finally(() => inProgress.delete(image))
    inProgress.set(image, bringing)
    return bringing
  }

  async function bringInTurn(image: string, onProgress: Progress): Promise<void> {
    const leaveNow = slots.enterNow(image)
    if (!leaveNow) onProgress('waiting for other images')
    const leave = leaveNow ?? (await slots.enter(image))!
    await bringNow(image, onProgress).finally(leave)
  }

  async function bringNow(image: string, onProgress: Progress, signal?: AbortSignal, end?: AbortSignal): Promise<void> {
    const pullError = await bringPublished(image, { onProgress, pulls, signal })
    if (pullError === null) return
    signal?.throwIfAborted()
    if (pullError instanceof HostUnreachable) throw pullError
    const rootfs = await makeRootfs(image, onProgress, end).catch(error => {
      end?.throwIfAborted()
      return unavailable(image, error, pullError)
    })
    end?.throwIfAborted()
    if (!rootfs) return unavailable(image, pullError)
    // Another process, like the start of an installation, waits for the same file and may have been faster.
    if (await present(image)) return
    onProgress('loading it into the engine')
    await load(docker, image, rootfs)
  }

  /** Resolves to null once the published image is here under our name, and otherwise to the reason why not. */
  async function bringPublished(image: string, options: PullOptions): Promise<Error | null> {
    const source = publishedName(image)
    if (source === null) return new Error('no registry has it')
    try {
      await pull(docker, source, options)
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

    async removeReplaced(except: () => Promise<readonly string[]>): Promise<void> {
      const filters = { dangling: ['true'], label: [programLabel] }
      const replaced = await call(abortSignal => docker.listImages({ filters, abortSignal }))
      if (replaced.length === 0) return
      const exceptions = await except()
      for (const { Id } of replaced.filter(({ Id }) => !exceptions.includes(Id)))
        await call(abortSignal => docker.getImage(Id).remove({ abortSignal })).catch(
          ignoreError('it is removed, or used: the next look tries again'),
        )
    },

    async ensure(image: string, onProgress: Progress = () => {}): Promise<void> {
      if (await present(image)) return
      const bringing = inProgress.get(image) ?? start(image, null)
      if (!bringing.giveWay?.signal.aborted) bringing.giveWay = null // someone waits for it now
      if (bringing.line) onProgress(bringing.line)
      bringing.listeners.add(onProgress)
      const again = await bringing.done.then(
        () => false,
        error => {
          if (!bringing.giveWay?.signal.aborted || error !== bringing.giveWay.signal.reason) throw error
          return true
        },
      )
      if (again) await this.ensure(image, onProgress)
    },

    async prepare(image: string, signal?: AbortSignal): Promise<boolean> {
      signal?.throwIfAborted()
      if (await present(image)) return true
      if (inProgress.size > 0) return false
      const bringing = start(image, new AbortController())
      const stop = () => {
        if (bringing.giveWay) for (const part of [bringing.giveWay, bringing.end]) part.abort(signal?.reason)
      }
      if (signal?.aborted) stop()
      signal?.addEventListener('abort', stop, { once: true })
      const done = bringing.done.finally(() => signal?.removeEventListener('abort', stop))
      return done.then(
        () => true,
        error => {
          if (error === gaveWay) return false
          throw error
        },
      )
    },
  }
}

/** Why an image without waiters is no longer brought. */
const gaveWay = new Error('Another image is requested.')

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
