import type { Logger } from 'pino'
import { type ContainerHost, HostUnreachable } from '../../../activities/containers/port.ts'
import type { Db } from '../../../db/database.ts'
import { recordBuildFact } from '../../../db/hosts/hosts.ts'
import { listUsedRuntimes } from '../../../db/hosts/used-runtimes.ts'
import { Backoff } from '../../../lib/async/backoff.ts'
import { loop, pause } from '../../../lib/async/loop.ts'
import { unlessAborted } from '../../../lib/async/timeout.ts'
import { GiB } from '../../../lib/bytes.ts'
import type { BuildFact } from '../../../policy/hosts/build-settings.ts'
import { imagesToWarm, type WarmLanguages } from '../../../policy/hosts/warm-images.ts'
import { roundSeconds } from '../../../policy/rounds.ts'

export interface WarmImagesOptions {
  db: Db
  engine: Pick<ContainerHost, 'prepareImage' | 'imageId'>
  hostId: string
  languages: WarmLanguages
  log: Logger
  /** Bytes that are free where images are stored. */
  freeBytes(): Promise<number>
  /** Pauses: before the first round, after one in which nothing was missing, and after one that gave way or failed. */
  seconds?: { first: number; round: number; again: number }
  retry?: { firstSeconds: number; maxSeconds: number }
  /** Milliseconds, for the delays of `retry`. */
  now?: () => number
}

/** Runtimes of applications that are prepared on one host. */
const maxUsed = 8
/** The rest of a disk is for applications, and for images that are requested. */
const minFreeBytes = 5 * GiB
const maxReason = 300
/** The start of an installation makes its first images itself while its host runs. */
const pauses = { first: 120, round: roundSeconds.warmImages, again: 10 }
/** A registry that does not answer is asked again after a minute, two, four, up to an hour. */
const retries = { firstSeconds: 60, maxSeconds: 3600 }

/**
 * Prepares the images of the runtimes that applications use, and those of the setting, before a deploy needs them: one at a time,
 * and only while no other image is being brought. Never rejects; nothing waits for it.
 */
export async function watchWarmImages(options: WarmImagesOptions, signal: AbortSignal): Promise<void> {
  const { db, hostId, languages, log, seconds = pauses, retry = retries } = options
  const report = reporter(options)
  if (languages === null) return report({ state: 'not prepared: WARM_IMAGES is none', remedy: null })
  const failures = failedImages(options)
  const fullDisks = new Backoff({ ...retry, now: options.now })
  const due = (image: string) => !signal.aborted && !failures.wait(image)

  /** Where the round has ended: something else goes first, the disk is full, or nowhere. */
  async function prepareAll(): Promise<'gave way' | 'full' | 'done'> {
    const images = imagesToWarm(await listUsedRuntimes(db, hostId, maxUsed), languages ?? [])
    failures.forgetOthers(images)
    const ready = new Set<string>()
    for (const image of images) if ((await options.engine.imageId(image)) !== null) ready.add(image)
    for (const image of ready) failures.see(image, 'ready')
    const listed = () => images.filter(image => ready.has(image))
    for (const image of images.filter(image => !ready.has(image) && due(image))) {
      if (fullDisks.waits('')) return 'full'
      const free = await options.freeBytes()
      if (free < minFreeBytes) {
        fullDisks.seen('')
        await report(fullDisk(listed(), free))
        return 'full'
      }
      fullDisks.forget('')
      const outcome = await prepare(options, image, signal)
      if (outcome === 'gave way') return outcome
      if (outcome === 'ready') ready.add(image)
      failures.see(image, outcome)
    }
    await report(factOf(listed(), failures.reasons))
    return 'done'
  }

  let ended = 'gave way'
  let trouble = ''
  const round = async () => {
    ended = 'failed'
    ended = await prepareAll()
    trouble = ''
  }
  // What waits for its delay may be due before the next round.
  const afterFailure = Math.min(seconds.round, retry.firstSeconds)
  const isWhole = () => ended === 'done' && failures.reasons.size === 0
  const isOver = () => ended === 'done' || ended === 'full'
  await pause(seconds.first * 1000, signal)
  await loop(round, {
    signal,
    everyMs: () => (isWhole() ? seconds.round : isOver() ? afterFailure : seconds.again) * 1000,
    onError(error) {
      // An engine that is away for an hour is one line of the log.
      const words = error instanceof HostUnreachable ? 'the engine does not answer' : String(error)
      if (!signal.aborted && words !== trouble) log.warn({ err: error }, 'prepared images: will try again')
      trouble = words
    },
  })
}

/** Images that cannot be had, with the reasons; each is tried again after a time that doubles. */
function failedImages({ log, retry = retries, now }: WarmImagesOptions) {
  const reasons = new Map<string, string>()
  const backoff = new Backoff({ ...retry, now })
  return {
    reasons: reasons as ReadonlyMap<string, string>,
    wait: (image: string) => backoff.waits(image),
    see(image: string, outcome: string): void {
      if (outcome === 'ready') {
        reasons.delete(image)
        backoff.forget(image)
        return
      }
      if (!reasons.has(image)) log.warn({ image, reason: outcome }, 'prepared images: not available')
      reasons.set(image, outcome)
      backoff.seen(image)
    },
    forgetOthers(images: readonly string[]): void {
      for (const image of reasons.keys()) if (!images.includes(image)) reasons.delete(image)
    },
  }
}

/** `ready`, `gave way`, or why the image cannot be had. */
async function prepare({ engine }: WarmImagesOptions, image: string, signal: AbortSignal): Promise<string> {
  try {
    return (await unlessAborted(engine.prepareImage(image, signal), signal)) ? 'ready' : 'gave way'
  } catch (error) {
    if (signal.aborted || error instanceof HostUnreachable) throw error
    const line = (error as Error).message.replace(/\s+/g, ' ').trim()
    return line.length > maxReason ? `${line.slice(0, maxReason)} …` : line
  }
}

/** Records a fact when it differs from the last one. */
function reporter({ db, hostId, log }: WarmImagesOptions) {
  let last = ''
  return async (fact: BuildFact): Promise<void> => {
    if (JSON.stringify(fact) === last) return
    await recordBuildFact(db, hostId, 'images', fact)
    last = JSON.stringify(fact)
    log.info(fact, 'prepared images')
  }
}

const factOf = (ready: readonly string[], failed: ReadonlyMap<string, string>): BuildFact => ({
  state: [
    ready.length > 0 ? `ready: ${ready.join(', ')}` : '',
    ...[...failed].map(([image, reason]) => `${image} NOT AVAILABLE: ${reason}`),
  ]
    .filter(Boolean)
    .join('; '),
  remedy:
    failed.size === 0 ? null : `give the host a registry that has ${[...failed.keys()].join(', ')}; it tries again`,
})

const fullDisk = (ready: readonly string[], free: number): BuildFact => ({
  state: `NOT PREPARED: ${Math.floor(free / GiB)} GB are free, and images need ${minFreeBytes / GiB} GB${ready.length > 0 ? `; ready: ${ready.join(', ')}` : ''}`,
  remedy: 'free space on the disk of the host',
})
